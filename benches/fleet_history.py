"""SYNTHETIC: writes the history of a fleet that never ran, multiplied from minutes that recorders really wrote.

    python benches/fleet_history.py --recorded HISTORY --out FOLDER --planted FILE [--servers 1000] [--days 30] [--every 1440]

`script/fleet-engines` calls it; alone it needs numpy and pyarrow. It takes the tables `minutes`, `digests`, `events`, `hosts`
and `settings` of a folder that `spindoctor record --parquet` filled, and writes as many servers and days in the same layout,
with the same columns and types. The days end yesterday. The same seed, the same recording and the same day give the same files.

What comes from the recording: the columns, the settings, the statements with their counts and mean times, what one minute
adds to each counter, the headlines of stalls. What is made up: how these numbers vary, the CPUs, the length of a PAUSE, and
the answers that are planted so that a query can be checked:

- servers with checkpoint stalls in the last seven days, and others whose stalls are older;
- servers on which one reading in twenty of a statement is six times as slow in the last seven days;
- CPU models whose commits take longer than on others, and on each model one server that is far slower than the rest;
- servers whose PAUSE is three times as long as on others of their CPU model, or whose spin settings are not made for it.
"""

import argparse
import datetime
import json
import multiprocessing
from pathlib import Path

import numpy
import pyarrow
import pyarrow.parquet

MINUTE_MS = 60_000
MINUTES_OF_DAY = 1_440
# A step from one recorded minute to the next that is shorter is the beginning of a recording, and left out.
SHORTEST_STEP_MS = 30_000
COUNTERS = [
    "questions", "commits", "slow_queries", "rows_read", "rows_changed", "server_cpu_us", "host_busy_us", "host_idle_us",
    "throttled_us", "disk_read_bytes", "disk_written_bytes",
]
GAUGES = ["threads_connected", "threads_running", "threads_running_max", "checkpoint_age_bytes", "replica_behind_s"]
SUMS = ["lock_ns", "rows_examined", "rows_sent", "rows_affected", "full_joins", "full_scans", "disk_temporary_tables"]
# Statements of each server: the ones that were executed most often.
DIGESTS = 8
# A real recorder reads them each 30 s. This many minutes keep the fleet's files on one disk.
DIGESTS_EVERY_MIN = 30
# Name, vendor, family, model, microarchitecture, PAUSE in ns, GHz, multiplier that fits, times the commit latency.
CPUS = [
    ("Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz", "GenuineIntel", 6, 79, "Broadwell", 10.9, 2.4, 50, 1.6),
    ("Intel(R) Xeon(R) Silver 4110 CPU @ 2.10GHz", "GenuineIntel", 6, 85, "Skylake", 66.0, 2.1, 8, 1.25),
    ("Intel(R) Xeon(R) Silver 4210 CPU @ 2.20GHz", "GenuineIntel", 6, 85, "Cascade Lake", 20.0, 2.2, 27, 1.0),
    ("AMD EPYC 9354 32-Core Processor", "AuthenticAMD", 25, 17, "Zen 4", 26.0, 3.3, 21, 0.7),
]
MULTIPLIER = "innodb_spin_wait_pause_multiplier"
SPIN = {"innodb_sync_spin_loops": "30", "innodb_spin_wait_delay": "6"}


class Recorded:
    """What recorders wrote: the columns of each table, and what is multiplied."""

    def __init__(self, folder: Path) -> None:
        self.schemas, self.rows = {}, {}
        for name in ("minutes", "digests", "events", "hosts", "settings"):
            files = sorted((folder / name).glob("date=*/server=*/*.parquet"))
            if not files:
                raise SystemExit(f"{folder}: no files of the table {name}; record longer, with spindoctor record --parquet")
            tables = [pyarrow.parquet.ParquetFile(file).read() for file in files]
            self.schemas[name] = tables[0].schema.remove_metadata()
            self.rows[name] = [row for table in tables for row in table.to_pylist()]
        self.minutes = self._minutes()
        self.digests = self._digests()
        stalls = [row for row in self.rows["events"] if row["ended"] is not None]
        self.stalls = [row for row in stalls if row["cause"] == "checkpoint-stall"]
        self.others = [row for row in stalls if row["cause"] != "checkpoint-stall"]
        if not self.stalls:
            raise SystemExit(f"{folder}: no event with the cause checkpoint-stall was recorded; record again")
        self.host = self.rows["hosts"][0]
        names = {row["name"] for row in self.rows["settings"]}
        if MULTIPLIER not in names:
            raise SystemExit(f"{folder}: no server has {MULTIPLIER}; record a MySQL of 8.0.16 or later")
        of = next(row["server"] for row in self.rows["settings"] if row["name"] == MULTIPLIER)
        self.settings = {row["name"]: row["value"] for row in self.rows["settings"] if row["server"] == of}

    def _minutes(self) -> list[dict]:
        """What one minute adds to each counter, and what the gauges were. A busy server's status is not in each minute: a step
        goes from one minute that has a number to the next that has it."""
        steps, before = [], {}
        for row in sorted(self.rows["minutes"], key=lambda row: row["time"]):
            step = {name: row[name] for name in GAUGES}
            for name in COUNTERS:
                step[name] = None
                if row[name] is None:
                    continue
                of = (row["server"], row["segment"], name)
                earlier, before[of] = before.get(of), row
                ms = (row["time"] - earlier["time"]).total_seconds() * 1e3 if earlier else 0
                if ms >= SHORTEST_STEP_MS:
                    step[name] = (row[name] - earlier[name]) * MINUTE_MS / ms
            steps.append(step)
        for name in ("questions", "host_busy_us", "checkpoint_age_bytes"):
            if all(step[name] is None for step in steps):
                raise SystemExit(f"no two minutes with {name} were recorded; record longer, or while the machine is less busy")
        return steps

    def _digests(self) -> list[dict]:
        """The statements of the server that has COMMIT among them: rates in a second, and the mean time of one execution."""
        ends = {}
        for row in sorted(self.rows["digests"], key=lambda row: row["time"]):
            ends.setdefault((row["server"], row["segment"], row["schema"], row["digest"]), []).append(row)
        found = {}
        for (server, *_), rows in ends.items():
            first, last = rows[0], rows[-1]
            executions = last["executions"] - first["executions"]
            if executions <= 0:
                continue
            seconds = (last["time"] - first["time"]).total_seconds()
            digest = {name: last[name] for name in ("schema", "digest", "text")}
            digest["per_s"] = executions / seconds
            digest["mean_ns"] = (last["total_ns"] - first["total_ns"]) / executions
            digest |= {name: (last[name] - first[name]) / executions for name in SUMS}
            found.setdefault(server, []).append(digest)
        for digests in found.values():
            if any(digest["text"] == "COMMIT" for digest in digests):
                digests.sort(key=lambda digest: (digest["text"] != "COMMIT", -digest["per_s"]))
                return digests[:DIGESTS]
        raise SystemExit("no server executed COMMIT; record one whose clients send transactions")


class Plan:
    """Which server has what."""

    def __init__(self, servers: int, days: int, seed: int) -> None:
        rng = numpy.random.default_rng(seed)
        self.cpu = [at % len(CPUS) for at in range(servers)]
        left = [int(at) for at in rng.permutation(servers)]
        take = lambda count: [left.pop() for _ in range(count)]  # noqa: E731
        few = max(2, servers // 80)
        self.stalled, self.stalled_before = take(few), take(few)
        self.doubled = take(max(2, servers // 100))
        self.long_pause, self.old_settings = take(max(1, servers // 200)), take(max(1, servers // 200))
        self.slowest = {}
        for at in left:
            self.slowest.setdefault(self.cpu[at], at)
        self.restarts = {at: int(rng.integers(1, days)) for at in range(servers) if rng.random() < 0.1}


class Fleet:
    """What all servers have in common."""

    def __init__(self, asked: argparse.Namespace) -> None:
        self.asked = asked
        self.recorded = Recorded(asked.recorded)
        self.plan = Plan(asked.servers, asked.days, asked.seed)
        self.first_day = asked.end - datetime.timedelta(days=asked.days)
        midnight = datetime.datetime.combine(self.first_day, datetime.time(), datetime.UTC)
        self.first_ms = int(midnight.timestamp() * 1e3)


class Server:
    """Writes one server."""

    def __init__(self, fleet: Fleet, at: int, rng: numpy.random.Generator) -> None:
        self.fleet, self.at, self.rng, self.name = fleet, at, rng, f"db{at + 1:04}"
        self.cpu = CPUS[fleet.plan.cpu[at]]
        self.offset_ms = int(rng.integers(0, 900))
        self.origin = f"{rng.integers(0, 2**32):08x}"
        self.scale = float(numpy.clip(rng.lognormal(0, 0.6), 0.2, 5))
        self.load = self._load(MINUTES_OF_DAY * fleet.asked.days)

    def _load(self, minutes: int) -> numpy.ndarray:
        """Day and night, some noise."""
        day = numpy.sin(2 * numpy.pi * (numpy.arange(minutes) / MINUTES_OF_DAY - 0.35))
        return self.scale * (1 + 0.5 * day) * self.rng.lognormal(0, 0.1, minutes)

    def segment(self, minute: numpy.ndarray) -> numpy.ndarray:
        restart = self.fleet.plan.restarts.get(self.at)
        return numpy.where(minute >= restart * MINUTES_OF_DAY, 2, 1) if restart else numpy.ones(len(minute), int)

    def count(self, steps: numpy.ndarray, segment: numpy.ndarray) -> numpy.ndarray:
        """A counter that begins again with the second segment."""
        total = numpy.cumsum(numpy.rint(steps).astype(numpy.int64), axis=0)
        begins = int(numpy.searchsorted(segment, 2))
        if 0 < begins < len(segment):
            total[begins:] -= total[begins - 1]
        return total

    def write_minutes(self, stalled: list[int]) -> None:
        steps, minutes = self.fleet.recorded.minutes, numpy.arange(len(self.load))
        pick = self.rng.integers(0, len(steps), len(minutes))
        segment = self.segment(minutes)
        began = numpy.searchsorted(segment, segment)
        columns = {
            "server": self.text([self.name], numpy.zeros(len(minutes), int)),
            "segment": segment,
            "time": self.fleet.first_ms + minutes * MINUTE_MS + self.offset_ms,
            "uptime_s": 60 * (minutes - began) + 3_600,
        }
        for name in COUNTERS + GAUGES:
            values = numpy.array([step[name] for step in steps if step[name] is not None])
            if len(values):
                values = values[pick % len(values)]
                columns[name] = self.count(values * self.load, segment) if name in COUNTERS else values
        if "checkpoint_age_bytes" in columns:
            age = numpy.rint(columns["checkpoint_age_bytes"] * self.rng.lognormal(0, 0.1, len(minutes))).astype(numpy.int64)
            age[stalled] = 2 * age.max()
            columns["checkpoint_age_bytes"] = age
        self.write_by_file("minutes", columns, minutes)

    def write_digests(self) -> None:
        digests, fleet = self.fleet.recorded.digests, self.fleet
        minutes = numpy.arange(0, len(self.load), DIGESTS_EVERY_MIN)
        segment, shape = self.segment(minutes), (len(minutes), len(digests))
        means = self.load.reshape(len(minutes), -1).mean(axis=1)
        executions = numpy.array([digest["per_s"] for digest in digests]) * means[:, None] * DIGESTS_EVERY_MIN * 60
        executions = numpy.maximum(numpy.rint(executions), 1)
        slow = self.rng.lognormal(0, 0.15, shape)
        for place, digest in enumerate(digests):
            if digest["text"] == "COMMIT":
                one = 4 if self.at in fleet.plan.slowest.values() else self.rng.lognormal(0, 0.2)
                slow[:, place] *= self.cpu[8] * one
        if self.at in fleet.plan.doubled:
            last_week = minutes >= len(self.load) - 7 * MINUTES_OF_DAY
            slow[last_week & (numpy.arange(len(minutes)) % 20 == 0), self.doubled()] *= 6
        per_execution = numpy.array([digest["mean_ns"] for digest in digests]) * slow
        rows = len(minutes) * len(digests)
        which = numpy.tile(numpy.arange(len(digests)), len(minutes))
        at = numpy.repeat(minutes, len(digests))
        columns = {
            "server": self.text([self.name], numpy.zeros(rows, int)),
            "segment": numpy.repeat(segment, len(digests)),
            "time": fleet.first_ms + at * MINUTE_MS + self.offset_ms,
            "executions": self.count(executions, segment).ravel(),
            "total_ns": self.count(executions * per_execution, segment).ravel(),
        }
        columns |= {name: self.text([digest[name] for digest in digests], which) for name in ("schema", "digest", "text")}
        for name in SUMS:
            each = numpy.array([digest[name] for digest in digests])
            columns[name] = self.count(executions * each, segment).ravel()
        self.write_by_file("digests", columns, at)

    def doubled(self) -> int:
        """The statement that is slower in the last week: the one that is executed most often, COMMIT apart."""
        return next(at for at, digest in enumerate(self.fleet.recorded.digests) if digest["text"] != "COMMIT")

    def write_events(self) -> dict:
        fleet, plan, days = self.fleet, self.fleet.plan, self.fleet.asked.days
        planted = {"server": self.name, "stalls": 0, "stalled_ms": 0, "stalled_minutes": []}
        events = []
        last_week = (max(0, days - 7), days)
        for servers, (begin, end) in ((plan.stalled, last_week), (plan.stalled_before, (0, last_week[0]))):
            if self.at in servers and begin < end:
                for _ in range(int(self.rng.integers(1, 6))):
                    minute = int(self.rng.integers(begin * MINUTES_OF_DAY, end * MINUTES_OF_DAY - 30))
                    event = fleet.recorded.stalls[int(self.rng.integers(len(fleet.recorded.stalls)))]
                    events.append((minute, event, float(self.rng.uniform(0.3, 3))))
        for day in range(days):
            if fleet.recorded.others and self.rng.random() < 0.05:
                event = fleet.recorded.others[int(self.rng.integers(len(fleet.recorded.others)))]
                events.append((day * MINUTES_OF_DAY + int(self.rng.integers(MINUTES_OF_DAY - 30)), event, 1.0))
        events.sort(key=lambda event: event[0])
        files = {}
        for number, (minute, event, longer) in enumerate(events, 1):
            began = fleet.first_ms + minute * MINUTE_MS + int(self.rng.integers(MINUTE_MS))
            lasted = max(1, round((event["ended"] - event["began"]).total_seconds() * 1e3 * longer))
            row = {**event, "server": self.name, "segment": int(self.segment(numpy.array([minute]))[0]), "event": number}
            row |= {"began": began, "ended": began + lasted}
            if event["cause"] == "checkpoint-stall":
                planted["stalled_minutes"].append(minute)
                if minute >= last_week[0] * MINUTES_OF_DAY:
                    planted["stalls"] += 1
                    planted["stalled_ms"] += lasted
            ended = (began + lasted - fleet.first_ms) // MINUTE_MS
            files.setdefault(ended // fleet.asked.every, []).append(row)
        for of, rows in files.items():
            columns = {name: [row[name] for row in rows] for name in fleet.recorded.schemas["events"].names}
            self.write("events", columns, of * fleet.asked.every)
        planted["doubled"] = fleet.recorded.digests[self.doubled()]["text"] if self.at in plan.doubled else None
        planted["slowest_of"] = next((CPUS[cpu][0] for cpu, at in plan.slowest.items() if at == self.at), None)
        planted["unfit"] = self.at in plan.long_pause or self.at in plan.old_settings
        return planted

    def write_host(self) -> None:
        """What a recorder writes when it starts: the host and the settings."""
        fleet, plan = self.fleet, self.fleet.plan
        cpu, vendor, family, model, generation, pause_ns, ghz, multiplier, _ = self.cpu
        pause_ns *= float(self.rng.uniform(0.97, 1.03)) * (3 if self.at in plan.long_pause else 1)
        if self.at in plan.old_settings:
            multiplier = 50 if generation == "Skylake" else max(1, multiplier // 6)
        restart = plan.restarts.get(self.at)
        for segment, day in enumerate([0, restart] if restart else [0], 1):
            minute = day * MINUTES_OF_DAY
            time = fleet.first_ms + minute * MINUTE_MS + self.offset_ms
            row = {
                **fleet.recorded.host, "server": self.name, "segment": segment, "time": time, "cpu": cpu, "vendor": vendor,
                "family": family, "model": model, "microarchitecture": generation, "is_virtual": False,
                "instruction": "pause", "pause_ns": pause_ns, "pause_cycles": round(pause_ns * ghz, 1),
                "pause_tsc_ticks": round(pause_ns * ghz, 1),
            }
            self.write("hosts", {name: [row[name]] for name in fleet.recorded.schemas["hosts"].names}, minute)
            settings = fleet.recorded.settings | SPIN | {MULTIPLIER: str(multiplier)}
            columns = {"server": [self.name] * len(settings), "time": [time] * len(settings)}
            columns |= {"name": list(settings), "value": list(settings.values())}
            self.write("settings", columns, minute)

    @staticmethod
    def text(values: list, which: numpy.ndarray) -> pyarrow.Array:
        """Texts of which each is in many rows."""
        return pyarrow.DictionaryArray.from_arrays(pyarrow.array(which, pyarrow.int32()), pyarrow.array(values, pyarrow.string()))

    def write_by_file(self, table: str, columns: dict, minutes: numpy.ndarray) -> None:
        """One file for each slice of the recorder's clock that has rows."""
        slices = minutes // self.fleet.asked.every
        ends = numpy.flatnonzero(numpy.diff(slices)) + 1
        for begin, end in zip([0, *ends], [*ends, len(minutes)]):
            part = {name: values[begin:end] for name, values in columns.items()}
            self.write(table, part, int(slices[begin]) * self.fleet.asked.every)

    def write(self, table: str, columns: dict, minute: int) -> None:
        """One file, named as the recorder names it, with the columns that the recorder has."""
        schema, rows, arrays, fields = self.fleet.recorded.schemas[table], len(next(iter(columns.values()))), [], []
        for field in schema:
            values = columns.get(field.name)
            if values is None:
                values = pyarrow.nulls(rows, field.type)
            elif not isinstance(values, pyarrow.Array):
                if isinstance(values, numpy.ndarray) and pyarrow.types.is_timestamp(field.type):
                    values = values.astype("datetime64[ms]")
                values = pyarrow.array(values, field.type)
            arrays.append(values)
            fields.append(pyarrow.field(field.name, values.type))
        minute -= minute % self.fleet.asked.every
        day = self.fleet.first_day + datetime.timedelta(days=minute // MINUTES_OF_DAY)
        folder = self.fleet.asked.out / table / f"date={day}" / f"server={self.name}"
        folder.mkdir(parents=True, exist_ok=True)
        hour, of_hour = divmod(minute % MINUTES_OF_DAY, 60)
        file = folder / f"{hour:02}-{of_hour:02}-00.000-{self.origin}.parquet"
        written = pyarrow.Table.from_arrays(arrays, schema=pyarrow.schema(fields))
        pyarrow.parquet.write_table(written, file, compression="zstd", store_schema=False)


def write_server(at: int) -> dict:
    """All files of one server; gives what was planted on it. Its process has the fleet from the one that started it."""
    server = Server(FLEET, at, numpy.random.default_rng([FLEET.asked.seed, at]))
    planted = server.write_events()
    server.write_minutes(planted.pop("stalled_minutes"))
    server.write_digests()
    server.write_host()
    return planted


def same_columns(asked: argparse.Namespace, recorded: Recorded) -> None:
    """Stops where a written file does not have the columns and types of a recorded one."""
    for table, schema in recorded.schemas.items():
        for file in (asked.out / table).glob("date=*/server=*/*.parquet"):
            written = pyarrow.parquet.read_schema(file)
            if not written.equals(schema):
                raise SystemExit(f"{file}: its columns are not those of the recording:\n{written}\n{schema}")
            break


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--recorded", type=Path, required=True, help="the folder that spindoctor record --parquet filled")
    parser.add_argument("--out", type=Path, required=True, help="where the synthetic history goes")
    parser.add_argument("--planted", type=Path, required=True, help="where the answers go, as JSON")
    parser.add_argument("--servers", type=int, default=1_000)
    parser.add_argument("--days", type=int, default=30, help="at least 15, so that there are two weeks to compare")
    parser.add_argument("--every", type=int, default=MINUTES_OF_DAY, help="minutes in a file; a recorder writes files of 5 by default")
    parser.add_argument("--seed", type=int, default=36)
    parser.add_argument("--processes", type=int, default=2)
    today = datetime.datetime.now(datetime.UTC).date()
    parser.add_argument("--end", type=datetime.date.fromisoformat, default=today, help="the day after the last one: today")
    asked = parser.parse_args()
    if asked.days < 15 or asked.servers < 16 or MINUTES_OF_DAY % asked.every:
        parser.error("at least 16 servers and 15 days; a day must be a multiple of --every")
    global FLEET
    FLEET = Fleet(asked)
    with multiprocessing.get_context("fork").Pool(asked.processes) as pool:
        planted = pool.map(write_server, range(asked.servers), chunksize=4)
    same_columns(asked, FLEET.recorded)
    asked.planted.write_text(json.dumps({"today": str(asked.end), "servers": planted}, indent=1))
    print(f"synthetic: {asked.servers} servers, {asked.days} days from {FLEET.first_day}, seed {asked.seed}")


if __name__ == "__main__":
    main()
