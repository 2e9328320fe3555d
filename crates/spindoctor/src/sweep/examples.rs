//! Sweeps made by hand, for the tests of the formats.

use jiff::{SignedDuration, Timestamp};
use spindoctor_model::host::{CpuModel, PauseLatency};
use spindoctor_model::{Fairness, Machine};
use spindoctor_tune::sweep::{Axis, Cell, Comparison, Conditions, Grid, Measured, Sweep};

fn axis(variable: &str, values: &[&str]) -> Axis {
    Axis { variable: variable.to_owned(), values: values.iter().map(|value| (*value).to_owned()).collect() }
}

fn conditions() -> Conditions {
    Conditions {
        server: "MySQL 9.7.4".to_owned(),
        address: "a throw-away server".to_owned(),
        machine: "a machine of 24 CPUs".to_owned(),
        workload: "oltp_point_select".to_owned(),
        tables: 48,
        rows: 100_000,
        warmup_s: 2.0,
        measured_s: 10.0,
        ..Conditions::default()
    }
}

/// A sweep of a grid whose throughput is a function of the setting's place and the number of clients.
fn made(grid: Grid, throughput: impl Fn(usize, u32) -> f64) -> Sweep {
    let settings = grid.settings();
    let start = Timestamp::from_second(1_763_750_000).unwrap();
    let cells = grid.left(&[], &mut |_| 0).into_iter().enumerate().map(|(at, cell)| {
        let Cell { setting, threads, run } = &cell;
        let place = settings.iter().position(|other| other == setting).unwrap();
        // Two per cent apart.
        let transactions_per_s = throughput(place, *threads) * (0.98 + 0.02 * f64::from(*run));
        Measured {
            at: start + SignedDuration::from_secs(12 * at as i64),
            seconds: 10.0,
            transactions_per_s,
            queries_per_s: transactions_per_s,
            p95_ms: Some(1_300.0 * f64::from(*threads) / transactions_per_s),
            cpu_us_per_query: Some(24e6 / transactions_per_s.max(60_000.0)),
            fairness: Some(fairness(place, cell.threads, transactions_per_s)),
            cell,
            ..Measured::default()
        }
    });
    let cells = cells.collect();
    Sweep::from_measured(conditions(), grid, cells, Vec::new())
}

/// The first setting serves all clients alike; the others starve one where there are many.
fn fairness(place: usize, threads: u32, transactions_per_s: f64) -> Fairness {
    let mean = 10.0 * transactions_per_s / f64::from(threads);
    let least = if place > 0 && threads >= 256 { 0.2 } else { 0.9 };
    let count = |ratio: f64| (ratio * mean).clamp(0.0, 1e15) as u64;
    Fairness { mean, sd: (1.0 - least) / 2.0 * mean, least: Some(count(least)), most: Some(count(1.1)) }
}

/// The fourth seed's: `innodb_sync_spin_loops` 30 and 200 from 1 to 1,024 clients.
pub fn spin_loops() -> Sweep {
    const TPS: [[f64; 11]; 2] = [
        [11178., 27741., 53364., 92546., 144619., 164884., 154235., 147456., 68369., 40509., 22166.],
        [11288., 28387., 53575., 92184., 143688., 164392., 174022., 152280., 150089., 127680., 61507.],
    ];
    let grid = Grid {
        axes: vec![axis("innodb_sync_spin_loops", &["30", "200"])],
        threads: (0..=10).map(|power| 1 << power).collect(),
        runs: 3,
    };
    made(grid, |place, threads| TPS[place][threads.ilog2() as usize])
}

/// More settings than a row has room for.
pub fn many() -> Sweep {
    let grid = Grid {
        axes: vec![
            axis("innodb_spin_wait_delay", &["0", "6", "24", "100"]),
            axis("innodb_sync_spin_loops", &["0", "30", "200"]),
        ],
        threads: vec![1, 16, 64, 256],
        runs: 2,
    };
    made(grid, |place, threads| {
        let clients = f64::from(threads);
        9_000.0 * clients
            / (1.0 + 0.05 * (clients - 1.0) + 2e-4 * (1 + place) as f64 * clients * (clients - 1.0))
    })
}

/// Without a variable, at one number of clients, one run.
pub fn as_it_is() -> Sweep {
    made(Grid { axes: Vec::new(), threads: vec![8], runs: 1 }, |_, _| 5_000.0)
}

/// Names and notes that want to be markup, and numbers that are none.
pub fn hostile() -> Sweep {
    const HOSTILE: &str = "<script>alert(1)</script>&\"'\u{1b}[2J\u{202e},;\n";
    let grid = Grid { axes: vec![axis(HOSTILE, &[HOSTILE, "2"])], threads: vec![1, 8], runs: 1 };
    let mut sweep = made(grid, |place, _| if place == 0 { f64::NAN } else { 1e300 });
    sweep.conditions = Conditions {
        server: HOSTILE.to_owned(),
        address: HOSTILE.to_owned(),
        machine: HOSTILE.to_owned(),
        options: vec![HOSTILE.to_owned()],
        workload: HOSTILE.to_owned(),
        ..Conditions::default()
    };
    sweep.notes.push(HOSTILE.to_owned());
    sweep
}

/// The fourth seed's on a machine whose PAUSE is long, and on one whose PAUSE is short: that has no 1,024 clients.
pub fn compared() -> Comparison {
    let (mut old, mut new) = (spin_loops(), spin_loops());
    let machine = |cpu: &str, ns: f64, cycles: f64, kernel: &str| Machine {
        cpu: Some(CpuModel { name: cpu.to_owned(), ..CpuModel::default() }),
        cpus: Some(16),
        pause: Some(PauseLatency { ns, core_cycles: Some(cycles), ..PauseLatency::default() }),
        kernel: Some(kernel.to_owned()),
        ..Machine::default()
    };
    old.conditions.hardware =
        machine("Intel(R) Xeon(R) Silver 4110 CPU @ 2.10GHz", 47.1, 140.0, "3.10.0-229.el7.x86_64");
    new.conditions.hardware =
        machine("Intel(R) Xeon(R) Silver 4210 CPU @ 2.20GHz", 14.2, 44.0, "3.10.0-229.el7.x86_64");
    for (sweep, delay) in [(&mut old, "6"), (&mut new, "4")] {
        let settings = [("innodb_spin_wait_delay", delay), ("sync_binlog", "1")];
        sweep.conditions.settings =
            settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    }
    new.grid.threads.retain(|threads| *threads < 1_024);
    let cells = new.cells.into_iter().map(|cell| {
        let gain = if cell.cell.threads >= 16 { 1.4 } else { 1.0 };
        Measured { transactions_per_s: gain * cell.transactions_per_s, ..cell }
    });
    let new = Sweep::from_measured(new.conditions, new.grid, cells.collect(), Vec::new());
    Comparison::from_sweeps(("old.json", &old), ("new.json", &new)).unwrap()
}

/// Hostile on both sides.
pub fn compared_hostile() -> Comparison {
    let (one, mut other) = (hostile(), hostile());
    other.conditions.server = format!("{} 2", other.conditions.server);
    other.conditions.settings.insert(one.notes[0].clone(), one.notes[0].clone());
    let name = one.notes[0].clone();
    Comparison::from_sweeps((&name, &one), (&name, &other)).unwrap()
}

/// All of them, with a name.
pub fn all() -> [(&'static str, Sweep); 4] {
    [("spin loops", spin_loops()), ("many", many()), ("as it is", as_it_is()), ("hostile", hostile())]
}
