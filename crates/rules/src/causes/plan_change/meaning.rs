//! Why a plan is another one, by what was asked about it as it is now. Pure.

use spindoctor_model::number::{counted, duration, whole};
use spindoctor_model::plan_now::{Index, PlanLine, PlanNow, TableName, TableStatistics};
use spindoctor_model::{Evidence, Reading, ServerVersion, Window};

use super::{Changed, Found, TIMES};

/// The server says how old statistics are in whole seconds, by its clock.
const AGE_ERROR_S: f64 = 1.0;

/// Lines of EXPLAIN that are shown.
const LINES: usize = 4;

/// Indexes that are shown.
const INDEXES: usize = 8;

/// What a finding says of the plan as it is now.
pub(super) struct Meaning<'a> {
    /// What was asked about this statement, where it was.
    pub(super) plan: Option<&'a PlanNow>,
    /// Why it is another one.
    pub(super) reason: Reason<'a>,
    /// The columns that the statement compares.
    pub(super) columns: Vec<String>,
    /// True where it scans, which it did not before.
    pub(super) is_scan: bool,
    /// How the server calls an index that the optimizer may not use.
    pub(super) hidden: Hidden,
}

/// Why the plan is another one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Reason<'a> {
    /// The optimizer may not use the index that serves the statement best.
    Hidden(&'a Index),
    /// No index begins with a column that the statement compares.
    NoIndex,
    /// The statistics were computed no earlier than the plan changed.
    NewStatistics(&'a TableStatistics),
    /// The indexes are there, the statistics are as old as this or older, seconds, and the optimizer expects as many rows as are read.
    OtherValues(f64),
    /// It was not asked, or the answers do not say.
    Unknown,
}

/// What a server calls an index that the optimizer may not use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hidden {
    /// In a sentence.
    pub(super) word: &'static str,
    /// In ALTER TABLE.
    pub(super) hide: &'static str,
    /// The same to take it back.
    pub(super) show: &'static str,
}

const INVISIBLE: Hidden = Hidden { word: "invisible", hide: "INVISIBLE", show: "VISIBLE" };
const IGNORED: Hidden = Hidden { word: "ignored", hide: "IGNORED", show: "NOT IGNORED" };

impl<'a> Meaning<'a> {
    pub(super) fn new(window: &'a Window, found: &Found<'_>, statement: &str) -> Self {
        let (changed, digest) = (&found.worst, found.worst.grown.digest);
        let columns = spindoctor_sql::compared_columns(statement);
        let plan = window.plan_now.value();
        let plan = plan.filter(|plan| plan.schema == digest.schema && plan.digest == digest.digest);
        let reason = plan.map_or(Reason::Unknown, |plan| reason(plan, changed, found.seconds, &columns));
        let is_mariadb = window.server.version.is_some_and(ServerVersion::is_mariadb);
        let hidden = if is_mariadb { IGNORED } else { INVISIBLE };
        Self { plan, reason, columns, is_scan: changed.is_scan(), hidden }
    }

    /// What the headline begins with.
    pub(super) fn subject(&self) -> String {
        match self.reason {
            Reason::Hidden(index) => format!("Index {} is {}: a statement", index.name, self.hidden.word),
            _ => "A statement".to_owned(),
        }
    }

    /// The mechanism.
    pub(super) fn why(&self) -> String {
        let table = self.plan.map(|plan| named(&plan.table)).unwrap_or_default();
        match self.reason {
            Reason::Hidden(index) => format!(
                "Index {} ({}) of {table} is {}, so the optimizer may not use it, and no other index of the table serves the statement \
                 as well.",
                index.name,
                index.columns.join(", "),
                self.hidden.word
            ),
            Reason::NoIndex => format!(
                "It scans a table, which it did not before, and no index of {table} begins with {}, which it compares: the index was \
                 dropped, or it was never there and the table was small.",
                self.columns.join(" or ")
            ),
            Reason::NewStatistics(statistics) => format!(
                "The statistics of {table} were computed {} before they were asked for, no earlier than the plan changed: by them the \
                 optimizer chose {}.",
                duration(statistics.age_s),
                if self.is_scan { "to scan a table, or to join without an index" } else { "another index, or another order" }
            ),
            Reason::OtherValues(age_s) => format!(
                "The indexes that it could use are there, the statistics of {table} are older than the change ({}), and the optimizer \
                 expects as many rows as are read: other values are asked for, which more rows have.",
                duration(age_s)
            ),
            Reason::Unknown if self.is_scan => {
                "It scans a table, or joins without an index, which it did not before: an index was dropped or made invisible, or the \
                 optimizer does not take it any more."
                    .to_owned()
            }
            Reason::Unknown => "It uses an index, but reads far more rows by it than before: the optimizer took another one, the table \
                                has grown, or other values are asked for."
                .to_owned(),
        }
    }

    /// What was asked, as readings.
    pub(super) fn evidence(&self) -> Vec<Evidence> {
        let Some(plan) = self.plan else { return Vec::new() };
        let lines = plan.explained.value().into_iter().flatten().take(LINES);
        let mut evidence: Vec<Evidence> =
            lines.map(|line| Evidence::new("plan now", said(line), "", "EXPLAIN")).collect();
        if let Some(indexes) = plan.indexes.value() {
            let reading = format!("indexes of {}", named(&plan.table));
            evidence.push(Evidence::new(&reading, self.list(indexes), "", "information_schema.STATISTICS"));
        }
        if let Some(statistics) = plan.statistics.value() {
            let (reading, source) = ("age of the statistics", "mysql.innodb_index_stats");
            evidence.push(Evidence::new(reading, statistics.age_s, "s", source));
            let rows = statistics.rows.map(|rows| rows as f64);
            let rows =
                rows.map(|rows| Evidence::new("rows by them", rows, "rows", "mysql.innodb_table_stats"));
            evidence.extend(rows);
        }
        evidence
    }

    fn list(&self, indexes: &[Index]) -> String {
        let one = |index: &Index| {
            let hidden = if index.is_hidden { format!(" {}", self.hidden.word) } else { String::new() };
            format!("{} ({}){hidden}", index.name, index.columns.join(", "))
        };
        let mut text: Vec<String> = indexes.iter().take(INDEXES).map(one).collect();
        if indexes.len() > INDEXES {
            text.push(format!("and {} more", indexes.len() - INDEXES));
        }
        if text.is_empty() { "none".to_owned() } else { text.join(", ") }
    }
}

/// A table for a sentence.
fn named(table: &TableName) -> String {
    match table.schema.as_str() {
        "" => table.name.clone(),
        schema => format!("{schema}.{}", table.name),
    }
}

/// A line of EXPLAIN in words.
fn said(line: &PlanLine) -> String {
    let PlanLine { table, access, key, extra, .. } = line;
    if table.is_empty() {
        return extra.clone();
    }
    let rows = match line.rows {
        Some(rows) => format!(", {} estimated", counted(rows as u64, "row", "rows")),
        None => String::new(),
    };
    let read = match key {
        Some(key) if access == "index" => format!("the whole index {key} of {table} (index){rows}"),
        Some(key) => format!("{table} by index {key} ({access}){rows}"),
        None if access == "ALL" => {
            let possible = &line.possible_keys;
            let possible = if possible.is_empty() { "none".to_owned() } else { possible.join(", ") };
            format!("full scan (ALL) of {table}{rows}, possible keys {possible}")
        }
        None => format!("{table} ({access}){rows}"),
    };
    if extra.is_empty() { read } else { format!("{read}; {extra}") }
}

/// How many columns of an index from its first one on the statement compares.
pub(super) fn serves(index: &Index, columns: &[String]) -> usize {
    let is_compared = |column: &&String| columns.iter().any(|one| one.eq_ignore_ascii_case(column));
    index.columns.iter().take_while(is_compared).count()
}

fn reason<'a>(plan: &'a PlanNow, changed: &Changed<'_>, seconds: f64, columns: &[String]) -> Reason<'a> {
    let lines = plan.explained.value().map(Vec::as_slice);
    if let Some(indexes) = plan.indexes.value() {
        if let Some(index) = hidden(indexes, columns) {
            return Reason::Hidden(index);
        }
        if changed.is_scan() && scans(lines) && is_without(indexes, columns) {
            return Reason::NoIndex;
        }
    }
    let Reading::Available { at_s, value: statistics, .. } = &plan.statistics else { return Reason::Unknown };
    if at_s - statistics.age_s >= changed.earliest_s(seconds) - AGE_ERROR_S {
        return Reason::NewStatistics(statistics);
    }
    let expects = lines.and_then(expected_rows).is_some_and(|rows| rows * TIMES >= changed.rows());
    match plan.indexes.value() {
        Some(_) if expects => Reason::OtherValues(statistics.age_s),
        _ => Reason::Unknown,
    }
}

/// The hidden index that would serve the statement better than all that the optimizer may use.
fn hidden<'a>(indexes: &'a [Index], columns: &[String]) -> Option<&'a Index> {
    let visible = indexes.iter().filter(|index| !index.is_hidden).map(|index| serves(index, columns));
    let best = visible.max().unwrap_or(0);
    let hidden = indexes.iter().filter(|index| index.is_hidden).max_by_key(|index| serves(index, columns));
    hidden.filter(|index| serves(index, columns) > best)
}

/// True where EXPLAIN shows a scan, or nobody could ask it.
fn scans(lines: Option<&[PlanLine]>) -> bool {
    lines.is_none_or(|lines| lines.iter().any(|line| line.access == "ALL"))
}

/// True where no index begins with a compared column. Of an index of an expression nobody knows what it serves.
fn is_without(indexes: &[Index], columns: &[String]) -> bool {
    let is_expression = |index: &Index| index.columns.first().is_some_and(|column| column.starts_with('('));
    !columns.is_empty() && !indexes.iter().any(|index| is_expression(index) || serves(index, columns) > 0)
}

/// Rows that the optimizer expects one execution to read.
fn expected_rows(lines: &[PlanLine]) -> Option<f64> {
    let (mut all, mut times) = (0.0, 1.0);
    for line in lines {
        let rows = line.rows?;
        all += times * rows;
        times *= rows * line.filtered.unwrap_or(100.0) / 100.0;
    }
    Some(all)
}

/// Rows for a sentence.
pub(super) fn rows_of(statistics: &Reading<TableStatistics>) -> Option<String> {
    Some(format!("{} rows", whole(statistics.value()?.rows? as f64)))
}
