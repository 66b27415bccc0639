"""`errata review`: several reviewers judge the samples of one result in their browsers, at the same time.

review_samples: the samples and their page. database, event_log: what is stored. events, verdict_state: verdicts, and
what follows from them. queues: who judges which sample next. panel: counts, agreement and statements for the page.
stored_reviews: the same verdicts for `errata certify`.
review_session: all of this under one lock. retraining: a new model, in a process of its own. group_commit,
live_updates, security, routes, serving: the web server.
Only errata.cli and errata.review.certificates import this package, which needs the extra errata[review]. The page is
that of errata.report.
"""

DATABASE = "review.sqlite"  # in the folder of results
