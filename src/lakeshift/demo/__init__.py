"""The tour: a small lake that evolves, told in chapters. Each chapter checks itself by an independent read."""
