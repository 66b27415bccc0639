"""Write the ranking for other tools: Label Studio, FiftyOne and cleanlab. One module per tool.

Each module has a function that returns the records of its tool, and one that writes them to a file.
May be imported by `errata.cli` and by users. Imports the rest of `errata.review`, and below.
"""

from errata.review.exports.cleanlab import label_issues as label_issues
from errata.review.exports.cleanlab import write_cleanlab as write_cleanlab
from errata.review.exports.fiftyone import fiftyone_samples as fiftyone_samples
from errata.review.exports.fiftyone import write_fiftyone as write_fiftyone
from errata.review.exports.label_studio import label_studio_config as label_studio_config
from errata.review.exports.label_studio import label_studio_tasks as label_studio_tasks
from errata.review.exports.label_studio import write_label_studio as write_label_studio
