"""Mathematics on arrays: methods, their parts, the default, metrics, noise and noise rates. No files, no torch.

Every other package may import it; it imports only errata.errors, errata.extras and errata.wording. To learn how the
default ranks a sample, read in this order: default (the rule, step by step), memorising, aggregations, early, held_out,
held_out_models, pooling, sample_context, neighbours, smoothing, unmixing, confident_learning, measures,
composed_method. To learn how methods are named, extended and computed: methods, method_parts, method_registry,
composed_method, replay. To learn how verdicts become statements: random_part, guarantees, exact_bounds, betting_bounds,
certifying, recalibration.
"""
