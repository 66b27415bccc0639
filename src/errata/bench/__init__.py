"""The benchmark: settings × seeds × gathering × methods, run for real and set beside the published numbers."""
