"""Groups of the classic protocol: join, sync, heartbeat, leave (JoinGroup to LeaveGroup)."""
