"""From reviewed labels to corrected data.

`server` lets several people review at once (`errata review`), with `reranking` after verdicts and `agreement` between
reviewers.
`decisions` reads decisions.csv, `correction_plan` checks it against the data, `corrected_copy` (`errata.apply`) writes
a corrected copy of the data with `writers` (one module per family of file formats), and `exports` writes the ranking
for Label Studio, FiftyOne and cleanlab. `certificates` (`errata.certify`) states how many labels are wrong and how many
of these are found, from decisions on `random_draws`. Only `errata.cli` and the public names in `errata` import this
package.
"""
