//! Made-up reports for the tests of formats.

use spindoctor_collect::dives::{Index, PlanLine};
use spindoctor_collect::mysql::optimizer_trace::{EstimatedIndex, How, RangeAnalysis};
use spindoctor_model::{Effect, ServerVersion, Verdict};
use spindoctor_sql::Select;

use super::estimates::Estimates;
use super::trial::{Compared, Tried};
use super::view::{
    CandidateReport, Cost, Examined, InStatement, IndexesReport, ListSummary, NotExamined, Planned, Planning,
    SCHEMA, Split, Stacks,
};

fn index(name: &str, columns: &[&str], reads: u64) -> Index {
    Index {
        name: name.into(),
        columns: columns.iter().map(|&column| column.to_owned()).collect(),
        is_btree: true,
        reads: Some(reads),
        ..Index::default()
    }
}

/// A list of 190 values that is looked up in two indexes alike, and what sparing that brings.
pub fn planted() -> IndexesReport {
    let values: Vec<String> = (0..190).map(|value| value.to_string()).collect();
    let text = format!("SELECT id FROM orders WHERE customer IN ({}) LIMIT 1", values.join(", "));
    let select = Select::parse(&text).expect("it is plain");
    let ranges: Vec<String> = values.iter().map(|value| format!("customer = {value}")).collect();
    let estimated = |name: &str| EstimatedIndex {
        index: name.into(),
        ranges: ranges.clone(),
        how: Some(How::Dives),
        ..EstimatedIndex::default()
    };
    let analyses = [RangeAnalysis {
        table: "orders".into(),
        indexes: vec![estimated("by_customer"), estimated("by_customer_and_day")],
    }];
    let indexes = vec![(
        "orders".to_owned(),
        vec![
            index("by_customer", &["customer"], 81_200),
            index("by_customer_and_day", &["customer", "day"], 0),
        ],
    )];
    let plan = [PlanLine {
        table: "orders".into(),
        key: Some("by_customer".into()),
        rows: Some(190.0),
        ..PlanLine::default()
    }];
    let estimates = Estimates::from_analyses(&select, &analyses, &plan, &indexes, 200);
    let version = ServerVersion::parse("9.7.4", "MySQL Community Server").expect("it is a version");
    let tried = |ratio: f64, dives: u64, skipped: bool| Tried {
        quads: 8,
        runs: 352,
        same_rows: true,
        rows: 1,
        dives: Some(dives),
        skipped,
        time_ms: Compared {
            before: 1.5,
            after: 1.5 * ratio,
            effect: Some(Effect { ratio, low: Some(ratio * 0.95), high: Some(ratio * 1.05) }),
        },
        pages: Some(Compared {
            before: 1_533.0,
            after: 1_533.0 * ratio,
            effect: Some(Effect { ratio, low: Some(ratio * 0.99), high: Some(ratio * 1.01) }),
        }),
        pages_from_disk: Some(Compared { before: 0.0, after: 0.0, effect: None }),
        pages_for_rows: None,
        verdict: Verdict::Helps,
        pages_not_counted: None,
    };
    let found = [tried(0.12, 0, true), tried(0.55, 190, false), tried(0.14, 0, false)];
    let candidates = estimates.candidates(&select, version, &indexes).into_iter().zip(found);
    let candidates = candidates
        .map(|(candidate, tried)| CandidateReport { candidate, tried: Some(tried), not_tried: None })
        .collect();
    let examined = Examined {
        digest: "SELECT id FROM orders WHERE customer IN (...) LIMIT ?".into(),
        statement: None,
        database: "shop".into(),
        at_once: Some(0.93),
        executions_per_s: Some(600.0),
        execution_ms: Some(1.5),
        stacks: Some(InStatement { seen: 84, estimating: 0.79, diving: 0.74 }),
        lists: select.lists.iter().map(|list| ListSummary::from_list(list, 200)).collect(),
        estimates,
        planning: Planning {
            explains: 10,
            as_it_is: Planned { ms: 1.3, pages: Some(1_530.0) },
            without_in_vain: Some(Planned { ms: 0.8, pages: Some(765.0) }),
            without_list_dives: Some(Planned { ms: 0.2, pages: Some(4.0) }),
            pages_not_counted: None,
        },
        pages: Some(Split::new(1_533.0, 1_530.0)),
        candidates,
    };
    IndexesReport {
        schema: SCHEMA,
        server: "MySQL 9.7.4 on db17".into(),
        examined_on: None,
        start: "2026-07-01T09:30:00Z".parse().expect("it is a time"),
        seconds: 10.0,
        looks: 100,
        eq_range_index_dive_limit: 200,
        others_pages_per_s: 12.0,
        stacks: Some(Stacks {
            snapshots: 100,
            cpu_samples: 930,
            cpu_in_dives: Some(0.71),
            all: InStatement { seen: 90, estimating: 0.74, diving: 0.69 },
        }),
        stacks_not_known: None,
        findings: Vec::new(),
        statements: vec![examined],
        not_examined: vec![NotExamined {
            because: "it is not a plain SELECT".into(),
            statements: 3,
            seen: 41,
            digest: "UPDATE orders SET state = ? WHERE id = ?".into(),
        }],
        notes: Vec::new(),
        cost: Cost { server_queries: 1_204, server_busy_ms: 1_310.0, own_cpu_ms: 95.0, trial_runs: 1_056 },
    }
}

/// A server on which others read all the time, so that pages cannot be counted; nothing was tried.
pub fn busy() -> IndexesReport {
    let mut report = planted();
    report.others_pages_per_s = 2_400_000.0;
    let examined = &mut report.statements[0];
    let planning = &mut examined.planning;
    planning.as_it_is.pages = None;
    planning.without_in_vain = Some(Planned { ms: 0.8, pages: None });
    planning.without_list_dives = Some(Planned { ms: 0.2, pages: None });
    planning.pages_not_counted = Some("others ask for 2,400,000 pages a second meanwhile".into());
    examined.candidates.iter_mut().for_each(|candidate| candidate.tried = None);
    (examined.stacks, examined.pages) = (None, None);
    report.stacks = None;
    report.stacks_not_known = Some("--remote was given".into());
    report.cost = Cost { trial_runs: 0, ..report.cost };
    report
}

/// Nothing runs that is dived for.
pub fn nothing() -> IndexesReport {
    IndexesReport { statements: Vec::new(), not_examined: Vec::new(), ..planted() }
}

/// Names and texts that try to steer the terminal.
pub fn hostile() -> IndexesReport {
    const HOSTILE: &str = "\u{1b}[2J\u{202e}<script>alert(1)</script>\n";
    let mut report = planted();
    report.server = HOSTILE.into();
    report.examined_on = Some(HOSTILE.into());
    report.notes = vec![HOSTILE.into()];
    report.not_examined[0].because = HOSTILE.into();
    report.not_examined[0].digest = HOSTILE.into();
    let examined = &mut report.statements[0];
    examined.digest = HOSTILE.into();
    examined.statement = Some(HOSTILE.into());
    examined.database = HOSTILE.into();
    examined.lists[0].column = HOSTILE.into();
    for table in &mut examined.estimates.tables {
        table.table = HOSTILE.into();
        for index in &mut table.indexes {
            index.index = HOSTILE.into();
            index.columns = vec![HOSTILE.into()];
            index.alike = index.alike.as_ref().map(|_| HOSTILE.into());
        }
    }
    for text in &mut examined.candidates {
        text.candidate.change = HOSTILE.into();
        text.candidate.spares = HOSTILE.into();
        text.not_tried = Some(HOSTILE.into());
        text.tried = None;
    }
    examined.planning.pages_not_counted = Some(HOSTILE.into());
    report
}
