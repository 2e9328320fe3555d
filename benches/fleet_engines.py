"""Asks DuckDB, ClickHouse and Spark the same questions of a fleet's history, and compares what they answer, cell by cell.

    python benches/fleet_engines.py check HISTORY                      answers of the three engines, compared
    python benches/fleet_engines.py measure HISTORY COMPACT PLANTED    the same with times, before and after compaction

`script/fleet-engines` calls it, in an environment that has the engines. DuckDB's questions are the queries of the section "On
three engines" of docs/src/fleet-history.md; the other dialects are here. chdb stands for a ClickHouse server: it is the same
engine in a process. Each engine answers in a process of its own. Bytes read are those of this process's system calls
(`rchar` of /proc/PID/io), so that they mean the same for all three, whether the page cache had them or not.
"""

import datetime
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs/src/fleet-history.md"
SECTION = "## On three engines"
QUESTIONS = ["checkpoint stalls", "p99 doubled", "commit latency", "PAUSE"]
ENGINES = ["DuckDB", "ClickHouse", "Spark"]
TABLES = ["minutes", "digests", "events", "hosts", "settings"]
# Files below the folder of a table: as recorders write them, and after compaction.
DATED, COMPACT = "*/*/*.parquet", "*/*.parquet"
MEMORY = "6g"

CLICKHOUSE = [
    """
    SELECT server, stalls, stalled_s, oldest_checkpoint_mb
    FROM (SELECT server, count() AS stalls, sum(dateDiff('millisecond', began, ended)) / 1000 AS stalled_s
          FROM events WHERE date >= today() - 7 AND cause = 'checkpoint-stall' GROUP BY server) AS stalled
    JOIN (SELECT server, round(max(checkpoint_age_bytes) / 1e6) AS oldest_checkpoint_mb
          FROM minutes WHERE date >= today() - 7 GROUP BY server) AS oldest USING (server)
    ORDER BY stalled_s DESC, server
    """,
    """
    WITH steps AS (
        SELECT server, digest, text, date >= today() - 7 AS is_new,
               (total_ns - lagInFrame(total_ns) OVER w) / nullIf(executions - lagInFrame(executions) OVER w, 0) / 1e6 AS ms
        FROM digests WHERE date >= today() - 14
        WINDOW w AS (PARTITION BY server, segment, schema, digest ORDER BY time
                     ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)),
    weeks AS (
        SELECT server, any(text) AS statement, countIf(NOT is_new) AS before, countIf(is_new) AS since,
               quantileExactInclusiveIf(0.99)(ms, NOT is_new) AS before_ms, quantileExactInclusiveIf(0.99)(ms, is_new) AS now_ms
        FROM steps WHERE ms IS NOT NULL GROUP BY server, digest)
    SELECT server, statement, round(before_ms, 2) AS before_p99_ms, round(now_ms, 2) AS now_p99_ms
    FROM weeks WHERE before >= 100 AND since >= 100 AND now_ms >= 2 * before_ms
    ORDER BY now_ms / before_ms DESC, server
    """,
    """
    WITH counted AS (
        SELECT server, max(total_ns) - min(total_ns) AS ns, max(executions) - min(executions) AS commits
        FROM digests WHERE date >= today() - 7 AND text = 'COMMIT'
        GROUP BY server, segment, schema, digest),
    each AS (SELECT server, sum(ns) / sum(commits) / 1e6 AS ms FROM counted GROUP BY server HAVING sum(commits) > 0),
    host AS (SELECT server, argMax(cpu, time) AS cpu FROM hosts GROUP BY server)
    SELECT cpu, count() AS servers, round(quantileExactInclusive(0.5)(ms), 2) AS median_ms,
           argMax(each.server, ms) AS slowest, round(max(ms), 2) AS slowest_ms
    FROM each JOIN host ON each.server = host.server GROUP BY cpu ORDER BY slowest_ms DESC, cpu
    """,
    """
    WITH host AS (SELECT server, argMax(cpu, time) AS cpu, argMax(pause_ns, time) AS pause
                  FROM hosts WHERE pause_ns > 0 GROUP BY server),
    usual AS (SELECT cpu, quantileExactInclusive(0.5)(pause) AS usual_ns FROM host GROUP BY cpu),
    spin AS (
        SELECT server, toFloat64OrNull(argMaxIf(value, time, name = 'innodb_sync_spin_loops')) AS loops,
               toFloat64OrNull(argMaxIf(value, time, name = 'innodb_spin_wait_delay')) AS delay,
               toFloat64OrNull(argMaxIf(value, time, name = 'innodb_spin_wait_pause_multiplier')) AS multiplier
        FROM settings
        WHERE name IN ('innodb_sync_spin_loops', 'innodb_spin_wait_delay', 'innodb_spin_wait_pause_multiplier')
        GROUP BY server HAVING countIf(name = 'innodb_spin_wait_pause_multiplier') > 0),
    each AS (
        SELECT host.server AS server, host.cpu AS cpu, pause, usual_ns, multiplier,
               loops * (delay - 1) / 2 * multiplier * pause / 1000 AS spin
        FROM host JOIN usual ON host.cpu = usual.cpu JOIN spin ON host.server = spin.server)
    SELECT server, cpu, round(pause, 1) AS pause_ns, round(usual_ns, 1) AS usual_pause_ns, multiplier, round(spin) AS spin_us
    FROM each
    WHERE pause NOT BETWEEN usual_ns / 1.5 AND usual_ns * 1.5 OR spin NOT BETWEEN 41 / 4 AND 41 * 4
    ORDER BY server
    """,
]

SPARK = [
    """
    SELECT server, stalls, stalled_s, oldest_checkpoint_mb
    FROM (SELECT server, count(*) AS stalls, sum(unix_millis(ended) - unix_millis(began)) / 1000 AS stalled_s
          FROM events WHERE date >= current_date() - 7 AND cause = 'checkpoint-stall' GROUP BY server)
    JOIN (SELECT server, round(max(checkpoint_age_bytes) / 1e6) AS oldest_checkpoint_mb
          FROM minutes WHERE date >= current_date() - 7 GROUP BY server) USING (server)
    ORDER BY stalled_s DESC, server
    """,
    """
    WITH steps AS (
        SELECT server, digest, text, date >= current_date() - 7 AS is_new,
               (total_ns - lag(total_ns) OVER w) / nullif(executions - lag(executions) OVER w, 0) / 1e6 AS ms
        FROM digests WHERE date >= current_date() - 14
        WINDOW w AS (PARTITION BY server, segment, schema, digest ORDER BY time)),
    weeks AS (
        SELECT server, any_value(text) AS statement, count(*) FILTER (WHERE NOT is_new) AS before,
               count(*) FILTER (WHERE is_new) AS since, percentile(ms, 0.99) FILTER (WHERE NOT is_new) AS before_ms,
               percentile(ms, 0.99) FILTER (WHERE is_new) AS now_ms
        FROM steps WHERE ms IS NOT NULL GROUP BY server, digest)
    SELECT server, statement, round(before_ms, 2) AS before_p99_ms, round(now_ms, 2) AS now_p99_ms
    FROM weeks WHERE before >= 100 AND since >= 100 AND now_ms >= 2 * before_ms
    ORDER BY now_ms / before_ms DESC, server
    """,
    """
    WITH counted AS (
        SELECT server, max(total_ns) - min(total_ns) AS ns, max(executions) - min(executions) AS commits
        FROM digests WHERE date >= current_date() - 7 AND text = 'COMMIT'
        GROUP BY server, segment, schema, digest),
    each AS (SELECT server, sum(ns) / sum(commits) / 1e6 AS ms FROM counted GROUP BY server HAVING sum(commits) > 0),
    host AS (SELECT server, max_by(cpu, time) AS cpu FROM hosts GROUP BY server)
    SELECT cpu, count(*) AS servers, round(percentile(ms, 0.5), 2) AS median_ms, max_by(server, ms) AS slowest,
           round(max(ms), 2) AS slowest_ms
    FROM each JOIN host USING (server) GROUP BY cpu ORDER BY slowest_ms DESC, cpu
    """,
    """
    WITH host AS (SELECT server, max_by(cpu, time) AS cpu, max_by(pause_ns, time) AS pause
                  FROM hosts WHERE pause_ns > 0 GROUP BY server),
    usual AS (SELECT cpu, percentile(pause, 0.5) AS usual_ns FROM host GROUP BY cpu),
    spin AS (
        SELECT server, max_by(value, time) FILTER (WHERE name = 'innodb_sync_spin_loops') AS loops,
               max_by(value, time) FILTER (WHERE name = 'innodb_spin_wait_delay') AS delay,
               max_by(value, time) FILTER (WHERE name = 'innodb_spin_wait_pause_multiplier') AS multiplier
        FROM settings
        WHERE name IN ('innodb_sync_spin_loops', 'innodb_spin_wait_delay', 'innodb_spin_wait_pause_multiplier')
        GROUP BY server HAVING multiplier IS NOT NULL),
    each AS (
        SELECT server, cpu, pause, usual_ns, double(multiplier) AS multiplier,
               double(loops) * (double(delay) - 1) / 2 * double(multiplier) * pause / 1000 AS spin
        FROM host JOIN usual USING (cpu) JOIN spin USING (server))
    SELECT server, cpu, round(pause, 1) AS pause_ns, round(usual_ns, 1) AS usual_pause_ns, multiplier, round(spin) AS spin_us
    FROM each
    WHERE pause NOT BETWEEN usual_ns / 1.5 AND usual_ns * 1.5 OR spin NOT BETWEEN 41 / 4 AND 41 * 4
    ORDER BY server
    """,
]


def of_page(fence: str) -> list[str]:
    """The blocks of the page's section that have this fence."""
    section = PAGE.read_text().split(SECTION + "\n")[1]
    return [text.strip().rstrip(";") for text in re.findall(rf"```{fence}\n(.*?)```", section, re.S)]


def bytes_read(pid: int | str = "self") -> int:
    return int(re.search(r"rchar: (\d+)", Path(f"/proc/{pid}/io").read_text())[1])


def timed(answer, pids: list) -> dict:
    before, begun = sum(map(bytes_read, pids)), time.monotonic()
    rows = answer()
    seconds = time.monotonic() - begun
    rows = [[cell if cell is None or isinstance(cell, str) else float(cell) for cell in row] for row in rows]
    return {"seconds": seconds, "bytes": sum(map(bytes_read, pids)) - before, "rows": rows}


def ask_duckdb(root: str, files: str) -> list[dict]:
    import duckdb

    answers = []
    for query in of_page("sql"):
        # A database of its own for each question: none profits from what the one before has read.
        database = duckdb.connect(":memory:")
        database.execute(f"SET TimeZone = 'UTC'; SET memory_limit = '{MEMORY}B'")
        query = re.sub(r"'history/(\w+)/\*/\*/\*\.parquet'", rf"'{root}/\1/{files}'", query)
        answers.append(timed(lambda: database.execute(query).fetchall(), ["self"]))
        database.close()
    return answers


def ask_clickhouse(root: str, files: str) -> list[dict]:
    import chdb

    # As a server has it: clickhouse-local would map files, and no counter sees what is read through that.
    settings = "SETTINGS use_hive_partitioning = 1, storage_file_read_method = 'pread', session_timezone = 'UTC'"
    chdb.query("SELECT 1")
    answers = []
    for query in CLICKHOUSE:
        query = re.sub(r"\bFROM (\w+)\b(?= WHERE| GROUP|\n)", lambda found: clickhouse_table(found, root, files), query)

        def answer() -> list:
            printed = str(chdb.query(query + settings, "JSONCompact"))
            return [[number(cell) for cell in row] for row in json.loads(printed)["data"]]

        answers.append(timed(answer, ["self"]))
    return answers


def clickhouse_table(found: re.Match, root: str, files: str) -> str:
    return f"FROM file('{root}/{found[1]}/{files}')" if found[1] in TABLES else found[0]


def number(cell):
    """64-bit integers are texts in ClickHouse's JSON."""
    return float(cell) if isinstance(cell, str) and re.fullmatch(r"-?\d+", cell) else cell


def ask_spark(root: str, files: str) -> list[dict]:
    from pyspark.sql import SparkSession

    options = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": MEMORY,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        # Folders are listed by the driver: tasks for that cost more than they save on one machine.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in options.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    # Its start, some ten seconds, is in no time.
    spark.sql("SELECT count(*) FROM range(1000)").collect()
    jvm = spark._jvm.java.lang.ProcessHandle.current().pid()
    answers = []
    for query in SPARK:

        def answer() -> list:
            for table in TABLES:
                if re.search(rf"FROM {table}\b", query):
                    spark.read.parquet(f"{root}/{table}").createOrReplaceTempView(table)
            return [list(row) for row in spark.sql(query).collect()]

        answers.append(timed(answer, ["self", jvm]))
    spark.stop()
    return answers


def ask(root: Path, files: str) -> dict[str, list[dict]]:
    """What each engine answers, each in a process of its own."""
    answers = {}
    for engine in ENGINES:
        command = [sys.executable, __file__, "ask", engine, str(root.absolute()), files]
        quiet = os.environ | {"PYTHONWARNINGS": "ignore", "SPARK_LOCAL_IP": "127.0.0.1"}
        said = subprocess.run(command, capture_output=True, text=True, check=False, env=quiet)
        if said.returncode:
            raise SystemExit(f"{said.stderr}\n{engine} failed on {root}")
        answers[engine] = json.loads(said.stdout.splitlines()[-1])
    return answers


def compare(answers: dict[str, list[dict]], where: str) -> int:
    """Prints each difference between the engines; gives how many there are."""
    first, differences = answers[ENGINES[0]], 0
    for engine in ENGINES[1:]:
        for question, mine, theirs in zip(QUESTIONS, first, answers[engine], strict=True):
            if mine["rows"] != theirs["rows"]:
                differences += 1
                print(f"{where}, {question}: {ENGINES[0]} and {engine} differ")
                for rows in (mine["rows"], theirs["rows"]):
                    print(f"  {len(rows)} rows: {rows[:3]}")
    return differences


def planted(answers: list[dict], file: Path) -> int:
    """Prints where an answer is not what was planted; gives how often."""
    servers = json.loads(file.read_text())["servers"]
    stalls, doubled, commits, pause = (answer["rows"] for answer in answers)
    expected = [
        ({(row[0], row[1], round(row[2] * 1e3)) for row in stalls},
         {(one["server"], one["stalls"], one["stalled_ms"]) for one in servers if one["stalls"]}),
        ({(row[0], row[1]) for row in doubled}, {(one["server"], one["doubled"]) for one in servers if one["doubled"]}),
        ({(row[0], row[3]) for row in commits}, {(one["slowest_of"], one["server"]) for one in servers if one["slowest_of"]}),
        ({row[0] for row in pause}, {one["server"] for one in servers if one["unfit"]}),
    ]
    wrong = 0
    for question, (found, wanted) in zip(QUESTIONS, expected, strict=True):
        if found != wanted:
            wrong += 1
            print(f"{question}: not what was planted; missing {sorted(wanted - found)}, not planted {sorted(found - wanted)}")
    return wrong


def compact(history: Path, folder: Path) -> None:
    """One file for each table and day, by the page's statement. Its fence is `duckdb`: script/fleet-history runs each block that
    has the fence `sql`, and this one writes."""
    import duckdb

    database = duckdb.connect(":memory:")
    database.execute(f"SET TimeZone = 'UTC'; SET memory_limit = '{MEMORY}B'")
    (statement,) = of_page("duckdb")
    begun = time.monotonic()
    for table in TABLES:
        for day in sorted((history / table).glob("date=*")):
            (folder / table / day.name).mkdir(parents=True, exist_ok=True)
            one = statement.replace("date=2026-11-22", day.name).replace("/minutes/", f"/{table}/")
            one = one.replace("'history/", f"'{history.absolute()}/").replace("'compact/", f"'{folder.absolute()}/")
            database.execute(one.replace("server, time", "server, began") if table == "events" else one)
    print(f"compaction by DuckDB: {time.monotonic() - begun:.0f} s\n")


def sizes(folders: list[Path]) -> None:
    print("| table | rows | files | MB | files, compact | MB, compact |\n|---|--:|--:|--:|--:|--:|")
    import duckdb

    for table in TABLES:
        cells = []
        for folder in folders:
            files = [file.stat().st_size for file in (folder / table).rglob("*.parquet")]
            cells += [f"{len(files):,}", f"{sum(files) / 1e6:,.0f}"]
        ((rows,),) = duckdb.sql(f"SELECT count(*) FROM '{folders[1]}/{table}/{COMPACT}'").fetchall()
        print(f"| `{table}` | {rows:,} | " + " | ".join(cells) + " |")
    print()


def check(history: Path) -> int:
    answers = ask(history, DATED)
    differences = compare(answers, str(history))
    rows = ", ".join(f"{name} {len(answer['rows'])}" for name, answer in zip(QUESTIONS, answers[ENGINES[0]], strict=True))
    print(f"recorded: {len(ENGINES)} engines, {differences} differences; rows in the answers: {rows}\n")
    return differences


def measure(history: Path, folder: Path, answers: Path) -> int:
    dated = ask(history, DATED)
    wrong = compare(dated, "as written") + planted(dated[ENGINES[0]], answers)
    compact(history, folder)
    small = ask(folder, COMPACT)
    wrong += compare(small, "compact") + planted(small[ENGINES[0]], answers)
    sizes([history, folder])
    print("| question | engine | s | MB read | s, compact | MB read, compact | rows |\n|---|---|--:|--:|--:|--:|--:|")
    for at, question in enumerate(QUESTIONS):
        for engine in ENGINES:
            cells = []
            for one in (dated[engine][at], small[engine][at]):
                cells += [f"{one['seconds']:.1f}", f"{one['bytes'] / 1e6:,.0f}"]
            print(f"| {question} | {engine} | " + " | ".join(cells) + f" | {len(small[engine][at]['rows'])} |")
    print(f"\n{wrong} differences between engines and from what was planted; {datetime.date.today()}")
    return wrong


def main() -> None:
    match sys.argv[1:]:
        case ["ask", engine, root, files]:
            asked = {"DuckDB": ask_duckdb, "ClickHouse": ask_clickhouse, "Spark": ask_spark}[engine]
            print(json.dumps(asked(root, files)))
        case ["check", history]:
            sys.exit(1 if check(Path(history)) else 0)
        case ["measure", history, folder, answers]:
            sys.exit(1 if measure(Path(history), Path(folder), Path(answers)) else 0)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
