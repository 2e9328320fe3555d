//! The use of the optimizer's estimates for a statement: the indexes it dived into, how often, and which dives were
//! useless; and what would save them.
//!
//! In: the statement, the optimizer's trace of it, the tables' indexes. Out: an [`Estimates`] with candidates for a
//! trial. Pure.

use serde::Serialize;
use spindoctor_collect::dives::{Index, PlanLine, quoted};
use spindoctor_collect::mysql::optimizer_trace::{EstimatedIndex, How, Range, RangeAnalysis, range};
use spindoctor_model::ServerVersion;
use spindoctor_sql::Select;
use spindoctor_sql::select::Table;

/// Lists of so many values and more need no dives to be estimated: MySQL 5.6 had this limit, before it became 200.
pub const FEWER: u64 = 10;

/// How an index's ranges were estimated, as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Estimated {
    /// Each range was looked up.
    Dives,
    /// From statistics.
    Statistics,
    /// Not at all: each range is one row of a unique index.
    Unique,
    /// Not at all: the index is forced.
    Skipped,
}

/// An index that could serve a table of the statement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EstimatedOne {
    pub index: String,
    pub columns: Vec<String>,
    pub estimated: Estimated,
    pub ranges: u64,
    /// Ranges that were looked up, each at both of its ends.
    pub dives: u64,
    /// True where the statement reads through it.
    pub is_used: bool,
    /// True where it was dived into and is not used.
    pub in_vain: bool,
    /// What makes it like the index that is used.
    pub alike: Option<String>,
    /// Rows that were read through it since the server started, where that is counted.
    pub reads_since_start: Option<u64>,
}

/// A table of the statement whose ranges were estimated.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EstimatedTable {
    pub table: String,
    pub used: Option<String>,
    pub indexes: Vec<EstimatedOne>,
}

/// What was estimated for a statement.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Estimates {
    pub tables: Vec<EstimatedTable>,
    pub dives: u64,
    pub dives_in_vain: u64,
}

/// What kind of change a candidate is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The index that is used anyway is forced.
    Force,
    /// The indexes that were dived into in vain are left out.
    Ignore,
    /// Shorter lists are estimated from statistics.
    Limit,
}

/// A way to spare dives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Candidate {
    pub kind: Kind,
    /// What is done: ``FORCE INDEX (`k_1`)``.
    pub change: String,
    /// What it spares, and on which condition.
    pub spares: String,
    /// What it risks.
    pub risk: String,
    /// How it is tried.
    #[serde(skip)]
    pub how: Try,
}

/// How a candidate is tried in a session of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Try {
    /// With this text.
    Text(String),
    /// With this `eq_range_index_dive_limit`.
    Limit(u64),
}

impl Estimates {
    /// What the optimizer said, put beside the tables' indexes.
    pub fn from_analyses(
        select: &Select,
        analyses: &[RangeAnalysis],
        plan: &[PlanLine],
        indexes_of: &[(String, Vec<Index>)],
        limit: u64,
    ) -> Self {
        let mut tables: Vec<EstimatedTable> = Vec::new();
        for table in &select.tables {
            let called = table.called();
            // The range optimizer may be asked again for the same table: the first time has all indexes.
            let Some(analysis) = analyses.iter().find(|one| one.table.eq_ignore_ascii_case(called)) else {
                continue;
            };
            let used = plan.iter().find(|line| line.table.eq_ignore_ascii_case(called));
            let used = used.and_then(|line| line.key.clone());
            let known =
                indexes_of.iter().find(|(name, _)| name == called).map_or(&[][..], |(_, known)| known);
            let mut indexes: Vec<EstimatedOne> =
                analysis.indexes.iter().map(|one| estimated(one, known, used.as_deref(), limit)).collect();
            if let Some(used) = used.as_deref() {
                let used = known.iter().find(|index| index.name == used);
                for one in indexes.iter_mut().filter(|one| one.in_vain) {
                    one.alike = used.and_then(|used| alike(&one.columns, used));
                }
            }
            tables.push(EstimatedTable { table: called.to_owned(), used, indexes });
        }
        let of_all = |count: fn(&EstimatedOne) -> u64| -> u64 {
            tables.iter().flat_map(|table| &table.indexes).map(count).sum()
        };
        let dives = of_all(|one| one.dives);
        let dives_in_vain = of_all(|one| if one.in_vain { one.dives } else { 0 });
        Self { tables, dives, dives_in_vain }
    }

    /// The longest list of equalities that was dived for, in ranges.
    pub fn most_equalities(&self) -> u64 {
        let indexes = self.tables.iter().flat_map(|table| &table.indexes);
        indexes.filter(|one| one.estimated == Estimated::Dives).map(|one| one.dives).max().unwrap_or(0)
    }

    /// What could spare dives.
    pub fn candidates(
        &self,
        select: &Select,
        version: ServerVersion,
        known: &[(String, Vec<Index>)],
    ) -> Vec<Candidate> {
        let mut candidates = Vec::new();
        for text in self.tables.iter().filter(|table| table.indexes.iter().any(|one| one.dives > 0)) {
            let Some(table) = select.tables.iter().find(|table| table.called() == text.table) else {
                continue;
            };
            if table.has_hint {
                continue;
            }
            let in_vain: Vec<&str> =
                text.indexes.iter().filter(|one| one.in_vain).map(|one| one.index.as_str()).collect();
            candidates.extend(force(select, table, text, version, known, !in_vain.is_empty()));
            if !in_vain.is_empty() {
                candidates.push(ignore(select, table, &in_vain));
            }
        }
        if self.most_equalities() >= FEWER && !select.lists.is_empty() {
            candidates.push(Candidate {
                kind: Kind::Limit,
                change: format!("eq_range_index_dive_limit = {FEWER}"),
                spares: format!(
                    "lists of {FEWER} values and more are estimated from statistics, in every index"
                ),
                risk: "where values are spread unevenly, statistics mislead and a plan may change".to_owned(),
                how: Try::Limit(FEWER),
            });
        }
        candidates
    }
}

fn estimated(one: &EstimatedIndex, known: &[Index], used: Option<&str>, limit: u64) -> EstimatedOne {
    let index = known.iter().find(|index| index.name == one.index);
    let ranges: Vec<Range> = one.ranges.iter().map(|text| range(text)).collect();
    // A range of all columns of a unique index is one row at most, and neither looked up nor guessed.
    let is_one_row = |range: &Range| {
        index.is_some_and(|index| {
            index.is_unique && !index.is_nullable && range.is_equality && range.columns >= index.columns.len()
        })
    };
    let several = ranges.iter().filter(|range| !is_one_row(range)).count() as u64;
    let equalities = ranges.iter().filter(|range| range.is_equality).count() as u64;
    // MariaDB does not show how: its rule is that of MySQL.
    let from_statistics = match one.how {
        Some(How::Statistics) => true,
        Some(How::Dives | How::Skipped) => false,
        None => limit > 0 && equalities >= limit,
    };
    let others = ranges.iter().filter(|range| !range.is_equality).count() as u64;
    let (estimated, dives) = match one.how {
        Some(How::Skipped) => (Estimated::Skipped, 0),
        _ if several == 0 => (Estimated::Unique, 0),
        // Ranges that are no equalities are looked up all the same.
        _ if from_statistics => (Estimated::Statistics, others),
        _ => (Estimated::Dives, several),
    };
    let is_used = used.is_some_and(|used| used.split(',').any(|name| name == one.index));
    EstimatedOne {
        index: one.index.clone(),
        columns: index.map(|index| index.columns.clone()).unwrap_or_default(),
        estimated,
        ranges: ranges.len() as u64,
        dives,
        is_used,
        in_vain: dives > 0 && !is_used,
        alike: None,
        reads_since_start: index.and_then(|index| index.reads),
    }
}

/// What makes an index like the one that is used.
fn alike(columns: &[String], used: &Index) -> Option<String> {
    let same =
        columns.iter().zip(&used.columns).take_while(|(one, other)| one.eq_ignore_ascii_case(other)).count();
    let name = &used.name;
    Some(match same {
        0 => return None,
        _ if same == columns.len() && same == used.columns.len() => format!("has the same columns as {name}"),
        _ if same == columns.len() => format!("{name} begins with all of its columns"),
        _ if same == used.columns.len() => format!("begins with all columns of {name}"),
        1 => format!("begins with the same column as {name}"),
        _ => format!("begins with the same {same} columns as {name}"),
    })
}

/// Forcing the index that is used anyway.
fn force(
    select: &Select,
    table: &Table,
    text: &EstimatedTable,
    version: ServerVersion,
    known: &[(String, Vec<Index>)],
    has_others: bool,
) -> Option<Candidate> {
    // Of an index merge there is no single index to force.
    let name = text.used.as_deref().filter(|used| !used.contains(','))?;
    let index =
        known.iter().find(|(called, _)| *called == text.table)?.1.iter().find(|index| index.name == name)?;
    let skips = skips_dives(select, index, version);
    let spares = match &skips {
        Ok(()) => "no dive at all: one table, one forced index that is not unique, no subquery, GROUP BY, DISTINCT, ORDER BY \
                   or full-text search"
            .to_owned(),
        Err(_) if !has_others => return None,
        Err(why) => format!("the dives into other indexes; those into {name} stay: {why}"),
    };
    let hint = format!("FORCE INDEX ({})", quoted(name));
    Some(Candidate {
        kind: Kind::Force,
        how: Try::Text(select.with_hint(table, &hint)),
        change: hint,
        spares,
        risk: "the index stays forced when a better one comes, or the data changes".to_owned(),
    })
}

/// Whether a server dives into nothing where this index is forced; else why it dives.
///
/// MySQL 8.0.3 (WL#6526), Reference Manual, "Equality Range Optimization of Many-Valued Comparisons". EXPLAIN always dives.
pub fn skips_dives(select: &Select, index: &Index, version: ServerVersion) -> Result<(), String> {
    let why = if version.is_mariadb() {
        "MariaDB always dives into a forced index"
    } else if !version.mysql_at_least(8, 0, 3) {
        "MySQL skips them from 8.0.3 on"
    } else if select.tables.len() > 1 {
        "the statement has more than one table"
    } else if select.is_grouped {
        "the statement has GROUP BY"
    } else if select.is_distinct {
        "the statement has DISTINCT"
    } else if select.is_ordered {
        "the statement has ORDER BY"
    } else if select.has_full_text || !index.is_btree {
        "the statement has a full-text search"
    } else if index.is_unique {
        "the index is unique"
    } else {
        return Ok(());
    };
    Err(why.to_owned())
}

/// Leaving out the indexes that were dived into in vain: what the statement would gain if they were not there.
fn ignore(select: &Select, table: &Table, in_vain: &[&str]) -> Candidate {
    let names: Vec<String> = in_vain.iter().map(|name| quoted(name)).collect();
    let hint = format!("IGNORE INDEX ({})", names.join(", "));
    Candidate {
        kind: Kind::Ignore,
        how: Try::Text(select.with_hint(table, &hint)),
        change: hint,
        spares: "the dives that were in vain, as if these indexes were not there".to_owned(),
        risk: "an index that this statement does not need may serve others: look before it is dropped"
            .to_owned(),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn index(name: &str, columns: &[&str], is_unique: bool) -> Index {
        Index {
            name: name.into(),
            columns: columns.iter().map(|&column| column.to_owned()).collect(),
            is_unique,
            is_btree: true,
            ..Index::default()
        }
    }

    /// So many values of k looked up in these indexes.
    fn analysis(values: u64, indexes: &[&str], how: Option<How>) -> Vec<RangeAnalysis> {
        let ranges: Vec<String> = (0..values).map(|value| format!("k = {value}")).collect();
        let one = |name: &&str| EstimatedIndex {
            index: (*name).to_owned(),
            ranges: ranges.clone(),
            how,
            ..EstimatedIndex::default()
        };
        vec![RangeAnalysis { table: "t".into(), indexes: indexes.iter().map(one).collect() }]
    }

    fn plan(key: &str) -> Vec<PlanLine> {
        vec![PlanLine { table: "t".into(), key: Some(key.into()), rows: Some(1.0), ..PlanLine::default() }]
    }

    fn known() -> Vec<(String, Vec<Index>)> {
        let indexes = vec![
            index("PRIMARY", &["id"], true),
            index("k_1", &["k"], false),
            index("k_and_c", &["k", "c"], false),
        ];
        vec![("t".into(), indexes)]
    }

    fn mysql() -> ServerVersion {
        ServerVersion::parse("9.7.4", "MySQL Community Server").unwrap()
    }

    fn mariadb() -> ServerVersion {
        ServerVersion::parse("10.11.19-MariaDB", "").unwrap()
    }

    fn select(rest: &str) -> Select {
        Select::parse(&format!("SELECT id FROM t WHERE k IN (1, 2, 3) {rest}")).unwrap()
    }

    fn planted(rest: &str) -> (Select, Estimates) {
        let select = select(rest);
        let analyses = analysis(190, &["k_1", "k_and_c"], Some(How::Dives));
        let estimates = Estimates::from_analyses(&select, &analyses, &plan("k_1"), &known(), 200);
        (select, estimates)
    }

    #[test]
    fn the_index_that_is_like_the_used_one_was_dived_into_in_vain() {
        let (_, estimates) = planted("");
        assert_eq!((estimates.dives, estimates.dives_in_vain), (380, 190));
        let [used, other] = &estimates.tables[0].indexes[..] else { panic!("{estimates:?}") };
        assert!(used.is_used && !used.in_vain && used.alike.is_none());
        assert!(!other.is_used && other.in_vain);
        assert_eq!(other.alike.as_deref(), Some("begins with all columns of k_1"));
    }

    #[test]
    fn lists_as_long_as_the_limit_are_not_dived_for() {
        let select = select("");
        let dives = |values, how, limit| {
            let analyses = analysis(values, &["k_1", "k_and_c"], how);
            Estimates::from_analyses(&select, &analyses, &plan("k_1"), &known(), limit).dives
        };
        assert_eq!(dives(190, Some(How::Statistics), 200), 0, "what the server says counts");
        assert_eq!(dives(190, Some(How::Skipped), 200), 0);
        assert_eq!((dives(199, None, 200), dives(200, None, 200), dives(500, None, 0)), (398, 0, 1_000));
    }

    #[test]
    fn one_row_of_a_unique_index_is_no_dive_and_a_range_always_is() {
        let select = select("");
        let of = |ranges: &[&str], index: &str, how| {
            let one = EstimatedIndex {
                index: index.into(),
                ranges: ranges.iter().map(|&range| range.to_owned()).collect(),
                how: Some(how),
                ..EstimatedIndex::default()
            };
            let analyses = [RangeAnalysis { table: "t".into(), indexes: vec![one] }];
            let estimates = Estimates::from_analyses(&select, &analyses, &plan(index), &known(), 200);
            (estimates.tables[0].indexes[0].estimated, estimates.dives)
        };
        assert_eq!(of(&["id = 1", "id = 2"], "PRIMARY", How::Dives), (Estimated::Unique, 0));
        assert_eq!(of(&["1 <= id <= 5"], "PRIMARY", How::Dives), (Estimated::Dives, 1));
        assert_eq!(of(&["k = 1", "k = 2", "5 < k"], "k_1", How::Statistics), (Estimated::Statistics, 1));
    }

    #[test]
    fn the_planted_waste_has_three_candidates() {
        let (select, estimates) = planted("LIMIT 1");
        let candidates = estimates.candidates(&select, mysql(), &known());
        let changes: Vec<&str> = candidates.iter().map(|candidate| candidate.change.as_str()).collect();
        assert_eq!(
            changes,
            ["FORCE INDEX (`k_1`)", "IGNORE INDEX (`k_and_c`)", "eq_range_index_dive_limit = 10"]
        );
        assert!(candidates[0].spares.starts_with("no dive at all"));
        let Try::Text(text) = &candidates[0].how else { panic!() };
        assert_eq!(text, "SELECT id FROM t FORCE INDEX (`k_1`) WHERE k IN (1, 2, 3) LIMIT 1");
    }

    #[test]
    fn force_index_skips_the_dives_on_known_conditions_only() {
        let index = index("k_1", &["k"], false);
        let skips = |rest: &str, version| skips_dives(&select(rest), &index, version);
        assert_eq!(skips("LIMIT 1", mysql()), Ok(()));
        for (rest, why) in [("ORDER BY id", "ORDER BY"), ("GROUP BY k", "GROUP BY")] {
            assert!(skips(rest, mysql()).unwrap_err().contains(why), "{rest}");
        }
        assert!(skips("", mariadb()).unwrap_err().contains("MariaDB"));
        let old = ServerVersion::parse("5.7.32", "MySQL Community Server").unwrap();
        assert!(skips("", old).unwrap_err().contains("8.0.3"));
        let unique = Index { is_unique: true, ..index.clone() };
        assert!(skips_dives(&select(""), &unique, mysql()).unwrap_err().contains("unique"));
        let joined = Select::parse("SELECT 1 FROM t, u WHERE t.k IN (1, 2)").unwrap();
        assert!(skips_dives(&joined, &index, mysql()).unwrap_err().contains("more than one table"));
    }

    #[test]
    fn forcing_is_no_candidate_where_it_spares_nothing() {
        let select = select("ORDER BY id");
        let analyses = analysis(190, &["k_1"], Some(How::Dives));
        let estimates = Estimates::from_analyses(&select, &analyses, &plan("k_1"), &known(), 200);
        let candidates = estimates.candidates(&select, mysql(), &known());
        assert_eq!(candidates.len(), 1, "{candidates:?}");
        assert_eq!(candidates[0].how, Try::Limit(FEWER));
        let (select, estimates) = planted("ORDER BY id");
        let candidates = estimates.candidates(&select, mysql(), &known());
        assert!(candidates[0].spares.contains("those into k_1 stay"), "{candidates:?}");
    }

    #[test]
    fn short_lists_and_tables_with_a_hint_are_left_alone() {
        let select = select("");
        let few =
            Estimates::from_analyses(&select, &analysis(3, &["k_1"], None), &plan("k_1"), &known(), 200);
        assert_eq!(few.candidates(&select, mariadb(), &known()), []);
        let hinted = Select::parse("SELECT id FROM t USE INDEX (k_1) WHERE k IN (1, 2, 3)").unwrap();
        let many = Estimates::from_analyses(
            &hinted,
            &analysis(3, &["k_1", "k_and_c"], None),
            &plan("k_1"),
            &known(),
            200,
        );
        assert_eq!(many.candidates(&hinted, mysql(), &known()), []);
    }

    #[test]
    fn how_alike_two_indexes_are_is_said_in_words() {
        let used = index("u", &["a", "b"], false);
        let text = |columns: &[&str]| alike(&index("x", columns, false).columns, &used).unwrap_or_default();
        assert_eq!(text(&["a"]), "u begins with all of its columns");
        assert_eq!(text(&["A", "b"]), "has the same columns as u");
        assert_eq!(text(&["a", "b", "c"]), "begins with all columns of u");
        assert_eq!(text(&["a", "d"]), "begins with the same column as u");
        assert_eq!(text(&["b"]), "");
    }
}
