"""Attacks on errata: kills, malformed and mutated files, races, a full disk, hostile reports. Run with `make torture`.

victims: errata in a forked process that can be killed. tally: the verdicts and the table. scenarios: the commands that
write files. kills, races, full_disk: attacks on scenarios. malformed, arguments, mutations: hostile input; the lists
are in malformed_*, environments and visible_images, their parts in hostile, array_files, calls and written_folders.
pages: hostile reports in a browser.
"""
