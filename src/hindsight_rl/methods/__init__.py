"""The methods: each a row that owns its options, how it is made, what of it can be searched, and its cost."""
