"""What judges are worth: agreement, two judges, cards, crossed rubrics."""
