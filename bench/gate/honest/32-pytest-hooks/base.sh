printf 'def pytest_collection_modifyitems(items):\n    items.sort(key=lambda item: item.name)\n\n\ndef pytest_report_header():\n    return "durations"\n' > conftest.py
