"""Training dynamics: the logits of every sample at every epoch.

Recording (recorder, run, reducers, merge), storage (store, run_folder, files, logits_file, manifest, ids, reading),
runs in many parts (shards, places, sharded, ray_shards), and results of one run: scores and the choice of the default
method (scoring), the ranking and the noise rate (ranking).
It imports errata.core only, and neither torch nor data readers. Every package above core may import it.
"""
