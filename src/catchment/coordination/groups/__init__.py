"""The group coordinator: classic, consumer and share groups, and the offsets that groups commit."""
