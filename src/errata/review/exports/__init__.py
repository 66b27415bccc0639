"""What was found, in the formats of the tools that people label with."""

from errata.review.exports.cleanlab import label_issues, write_cleanlab
from errata.review.exports.fiftyone import fiftyone_samples, write_fiftyone
from errata.review.exports.label_studio import label_studio_config, label_studio_tasks, write_label_studio

__all__ = [
    "fiftyone_samples",
    "label_issues",
    "label_studio_config",
    "label_studio_tasks",
    "write_cleanlab",
    "write_fiftyone",
    "write_label_studio",
]
