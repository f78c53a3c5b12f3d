"""What a reply is made of: the part of it that answers, and the language that it is in."""
