"""Apply of manifests: order of kinds, comparison, three-way merge or server-side apply, contention with others."""
