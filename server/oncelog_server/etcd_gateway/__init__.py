"""The JSON gateway of etcd's v3 API: bodies of requests and responses, without IO."""
