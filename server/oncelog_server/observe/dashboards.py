"""`python -m oncelog_server.observe.dashboards dashboards`: write the dashboards for Grafana."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from oncelog_server.metrics import table as metrics
from oncelog_server.observe.panels import DASHBOARDS, Dashboard, Panel

_DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_SCHEMA_VERSION: Final = 39
_WIDTH, _HEIGHT, _COLUMNS = 8, 8, 3


def document(dashboard: Dashboard) -> str:
    """Return the file of a dashboard."""
    content = {
        "uid": f"oncelog-{dashboard.name}",
        "title": dashboard.title,
        "tags": ["oncelog"],
        "schemaVersion": _SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": list(_variables())},
        "panels": [_panel(number, panel) for number, panel in enumerate(dashboard.panels)],
    }
    return json.dumps(content, indent=2) + "\n"


def _variables() -> Iterator[dict[str, Any]]:
    """Yield the choices of a reader: the data source and the brokers."""
    yield {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
    }
    query = f"label_values({metrics.BUILD_INFO.name}, instance)"
    yield {
        "name": "instance",
        "label": "Broker",
        "type": "query",
        "datasource": _DATASOURCE,
        "definition": query,
        "query": {"query": query, "refId": "instance"},
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
    }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    row, column = divmod(number, _COLUMNS)
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.description,
        "datasource": _DATASOURCE,
        "gridPos": {"h": _HEIGHT, "w": _WIDTH, "x": column * _WIDTH, "y": row * _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": _DATASOURCE,
                "expr": query.expression,
                "legendFormat": query.legend,
            }
            for index, query in enumerate(panel.queries)
        ],
    }


def main() -> None:
    target = Path(sys.argv[1])
    target.mkdir(exist_ok=True)
    for dashboard in DASHBOARDS:
        (target / f"{dashboard.name}.json").write_text(document(dashboard), encoding="utf-8")


if __name__ == "__main__":
    main()
