"""`errata.find`: choose a model, train it, rank the samples, answer and write the results.

find: the steps in order. sources, attached_data: what is read. pretrained, embedding, frozen_features: features of
pretrained models. find_options, candidates, model_training: the model and its training. conflicts: equal inputs with
different labels. trust, answer: the sentences. found: the result and its folder. detector: the same as a scikit-learn
estimator.
May be imported by errata.review and errata.cli.
"""
