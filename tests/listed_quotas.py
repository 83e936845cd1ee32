"""Fills ``ports.quotas.Quotas`` from a dictionary that tests change."""


class ListedQuotas:
    def __init__(self, limits=None):
        self._limits = dict(limits or {})
        self._callbacks = {}

    def limit(self, name, entity):
        return self._limits.get((name, entity))

    def set(self, name, entity, limit):
        self._limits[name, entity] = limit
        for callback in tuple(self._callbacks.values()):
            callback()

    def on_change(self, callback):
        token = object()
        self._callbacks[token] = callback
        return lambda: (self._callbacks.pop(token, None), None)[1]
