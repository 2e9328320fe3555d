//! Hand-made tunings for the tests of the formats.

use jiff::Timestamp;
use spindoctor_model::diagnosis::DiagnosedServer;
use spindoctor_model::trial::{Budget, Judged, QuantityVerdict, TRIAL_SCHEMA};
use spindoctor_model::{Block, Change, Effect, Effects, Flavor, Proposal, Remedy, Trial, Tuning, Verdict};

fn change(variable: &str, from: &str, to: &str) -> Change {
    Change { variable: variable.to_owned(), from: from.to_owned(), to: to.to_owned() }
}

fn trial(changes: Vec<Change>, verdict: Verdict, why: &str) -> Trial {
    let joined = |pick: fn(&Change) -> &str| changes.iter().map(pick).collect::<Vec<_>>().join(",");
    Trial {
        schema: TRIAL_SCHEMA.to_owned(),
        server: DiagnosedServer {
            flavor: Some(Flavor::Mysql),
            version: Some("9.7.4".to_owned()),
            hostname: "db17".to_owned(),
            address: "/run/mysqld/mysqld.sock".to_owned(),
            pid: Some(4310),
            uptime_s: Some(86_400),
            threads: Some(65),
        },
        start: "2026-07-01T09:30:00Z".parse::<Timestamp>().expect("a timestamp"),
        seconds: 142.0,
        variable: joined(|change| &change.variable),
        from: joined(|change| &change.from),
        to: joined(|change| &change.to),
        verdict,
        why: why.to_owned(),
        effect: Effects::default(),
        judged: Vec::new(),
        missing: Vec::new(),
        trade_off: false,
        budget: None,
        quads: 0,
        kept: false,
        notes: Vec::new(),
        blocks: Vec::new(),
        changes,
    }
}

/// Blocks as a lab server gave them, made a little uneven.
fn blocks(quads: u32, ratio: f64) -> Vec<Block> {
    let order =
        |quad: u32| if quad % 3 == 1 { [true, false, false, true] } else { [false, true, true, false] };
    (0..quads)
        .flat_map(|quad| order(quad).into_iter().enumerate().map(move |(at, is_new)| (quad, at, is_new)))
        .map(|(quad, at, is_new)| {
            let wave = 1.0 + 0.02 * (f64::from(quad) * 1.7 + at as f64 * 2.3).sin();
            let effect = if is_new { ratio } else { 1.0 };
            Block {
                quad,
                is_new,
                at_s: f64::from(quad) * 16.0 + at as f64 * 4.0 + 1.0,
                seconds: 3.0,
                throughput_per_s: (6_553.0 * wave * effect).round(),
                p95_ms: Some((24.0 / wave / effect * 8.0).round() / 8.0),
                cpu_us_per_query: Some((298.0 / effect).round()),
                errors_per_s: Some(0.0),
                loop_ns: Some(51_000.0),
                ..Block::default()
            }
        })
        .collect()
}

/// The three quantities with the margins that are the default.
fn judged(effects: &Effects, shown: [QuantityVerdict; 3], quads: u32) -> Vec<Judged> {
    let of = [
        ("throughput", effects.throughput, 0.02),
        ("p95", effects.p95, 0.1),
        ("cpu_per_query", effects.cpu_per_query, 0.03),
    ];
    of.into_iter()
        .zip(shown)
        .map(|((quantity, effect, margin), shown)| {
            let quads = if effect.is_some() { quads } else { 0 };
            Judged { quantity: quantity.to_owned(), shown, effect, margin, quads }
        })
        .collect()
}

/// A setting of which p95 is not known well enough.
pub fn not_enough_evidence() -> Tuning {
    let mut tuning = helps();
    let effect = |ratio, low, high| Some(Effect { ratio, low: Some(low), high: Some(high) });
    let trial = &mut tuning.decided;
    trial.verdict = Verdict::Inconclusive;
    trial.effect = Effects {
        throughput: effect(1.05, 1.041, 1.059),
        p95: effect(1.084, 0.932, 1.261),
        cpu_per_query: effect(1.002, 0.991, 1.013),
    };
    trial.judged =
        judged(&trial.effect, [QuantityVerdict::Better, QuantityVerdict::Open, QuantityVerdict::Same], 8);
    trial.missing = vec!["p95".to_owned()];
    trial.why = "Throughput got better, but there is not enough evidence about p95: throughput +5.0 % (+4.1 to +5.9), p95 +8.4 % (-6.8 to +26.1), CPU per query +0.2 % (-0.9 to +1.3) in 8 quads. p95 may be up to 26.1 % worse, and its margin is 10 %.".to_owned();
    trial.budget = Some(Budget {
        quantity: "p95".to_owned(),
        margin: 0.1,
        quads: 105,
        seconds: 4_200.0,
        seconds_allowed: 600.0,
        reached: Some(0.27),
    });
    trial.kept = false;
    tuning.settings = vec!["Put back: innodb_spin_wait_delay = 100.".to_owned()];
    tuning
}

/// A mis-set spin that was mended.
pub fn helps() -> Tuning {
    let effect = |ratio, low, high| Some(Effect { ratio, low: Some(low), high: Some(high) });
    let spin = vec![
        change("innodb_spin_wait_delay", "100", "6"),
        change("innodb_spin_wait_pause_multiplier", "100", "50"),
    ];
    let mut decided = trial(
        spin.clone(),
        Verdict::Helps,
        "Throughput, p95 and CPU per query got better: throughput +70.0 % (+66.1 to +74.0), p95 -41.2 % (-44.0 to -38.3), CPU per query -41.1 % (-42.0 to -40.2) in 8 quads.",
    );
    decided.effect = Effects {
        throughput: effect(1.70, 1.661, 1.74),
        p95: effect(0.588, 0.56, 0.617),
        cpu_per_query: effect(0.589, 0.58, 0.598),
    };
    decided.judged = judged(&decided.effect, [QuantityVerdict::Better; 3], 8);
    (decided.quads, decided.kept, decided.blocks) = (8, true, blocks(8, 1.7));
    decided.notes = vec![
        "The load drifted by +12 % over 128 s; within a quad that cancels.".to_owned(),
        "guard rails: 95th percentile 81.0 ms, 64 statements at once".to_owned(),
    ];
    let mut first =
        trial(spin, Verdict::Inconclusive, "Search (all proposals): it won the race. It decides nothing.");
    first.effect.throughput = Some(Effect { ratio: 1.66, low: None, high: None });
    let mut second = trial(
        vec![change("innodb_sync_spin_loops", "30", "15")],
        Verdict::Inconclusive,
        "Search (all proposals): it dropped out after round 2. It decides nothing.",
    );
    second.effect.throughput = Some(Effect { ratio: 1.31, low: None, high: None });
    Tuning {
        decided,
        proposals: vec![Proposal {
            family: "latch-spin".to_owned(),
            changes: vec![change("innodb_spin_wait_delay", "100", "6")],
            remedy: Remedy {
                statement: "SET GLOBAL innodb_spin_wait_delay = 6".to_owned(),
                why: "a full spin lasts 1.6 ms".to_owned(),
                dynamic: true,
                risk: "more waits go to sleep".to_owned(),
                undo: "SET GLOBAL innodb_spin_wait_delay = 100".to_owned(),
            },
            ..Proposal::default()
        }],
        searched: vec![first, second],
        settings: vec!["Kept: innodb_spin_wait_delay = 6, until the server restarts.".to_owned()],
    }
}

/// A trial that a guard rail ended in its second quad.
pub fn broken_off() -> Tuning {
    let mut decided = trial(
        vec![change("innodb_thread_concurrency", "0", "2")],
        Verdict::Inconclusive,
        "It was broken off: a guard rail ended it with the new setting: 95 % of the statements took up to 310.0 ms; the rail is 72.0 ms, 3 times the worst second before (24.0 ms).",
    );
    decided.quads = 1;
    decided.effect.throughput = Some(Effect { ratio: 0.71, low: None, high: None });
    decided.judged = judged(
        &decided.effect,
        [QuantityVerdict::Open, QuantityVerdict::NotMeasured, QuantityVerdict::NotMeasured],
        1,
    );
    decided.missing = vec!["throughput".to_owned()];
    decided.blocks = blocks(2, 0.71);
    decided.blocks.truncate(5);
    decided.blocks[4].left_out = Some("a guard rail was hit".to_owned());
    Tuning {
        decided,
        proposals: Vec::new(),
        searched: Vec::new(),
        settings: vec!["Put back: innodb_thread_concurrency = 0.".to_owned()],
    }
}

/// Everything that a server could say to hurt a terminal or a browser.
pub fn hostile() -> Tuning {
    const EVIL: &str = "\u{1b}[2J<script>alert(1)</script>\u{202e}\u{9b}31m\"'";
    let mut tuning = broken_off();
    let trial = &mut tuning.decided;
    trial.server.hostname = EVIL.to_owned();
    trial.changes = vec![change(EVIL, EVIL, EVIL)];
    trial.why = EVIL.to_owned();
    trial.notes = vec![EVIL.to_owned()];
    trial.effect.throughput = Some(Effect { ratio: 1e300, low: Some(0.0), high: Some(f64::MAX) });
    tuning.searched = vec![trial.clone()];
    tuning.settings = vec![EVIL.to_owned()];
    tuning
}
