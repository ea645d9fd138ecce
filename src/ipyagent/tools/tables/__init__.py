"""Tables in files, described from their first rows: columns, types, missing values."""
