"""Models, recipes and the training that records them; the only package that needs torch.

Recipes say how to train, `gather` trains and returns dynamics, `search` chooses a model and a recipe.
Nothing is imported here, because `recipes` is also read where torch is not installed.
Imported by `errata.datasets` and the packages above it. Imports `errata.integrations` and the packages below it.
"""
