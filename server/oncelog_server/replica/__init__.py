"""The replicas of a partition: the ISR and the high watermark, decided from the followers' log
ends."""
