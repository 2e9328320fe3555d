//! Plans of statements in JSON: `EXPLAIN FORMAT=JSON` and `EXPLAIN ANALYZE FORMAT=JSON` of MySQL in both versions of the format, `EXPLAIN
//! FORMAT=JSON` and `ANALYZE FORMAT=JSON` of MariaDB.
//!
//! ```text
//! {"query_block": {"cost_info": {"query_cost": "31.5"}, "nested_loop": [
//!   {"table": {"table_name": "o", "access_type": "ALL", "possible_keys": ["by_state"], "rows_examined_per_scan": 200, "filtered": "10.00"}}]}}
//! {"query": "/* select#1 */ select ...", "query_plan": {"operation": "Filter: (o.state = 'x')", "actual_loops": 1, "actual_rows": 17.0,
//!   "actual_last_row_ms": 4.1, "estimated_rows": 20.0, "inputs": [{"operation": "Table scan on o", ...}]}}
//! {"query_block": {"r_loops": 1, "r_total_time_ms": 39.8, "nested_loop": [
//!   {"table": {"table_name": "o", "access_type": "ALL", "r_loops": 1, "rows": 200, "r_rows": 9000, "r_table_time_ms": 30.1,
//!     "r_other_time_ms": 4.2, "r_filtered": 0.1, "r_engine_stats": {"pages_accessed": 383, "pages_read_count": 4}}}]}}
//! ```
//!
//! The first is version 1 of MySQL, the second version 2 (`explain_json_format_version`, from 8.3 on; `query_plan` stands there from 9.0 on),
//! the third MariaDB's, of which the names with `r_` were measured. Times of MariaDB are of all loops (sql/sql_explain.cc), those of MySQL of
//! one. MariaDB's `SHOW ANALYZE FORMAT=JSON` has a statement that still runs, with `r_query_time_in_progress_ms` in front. A statement and a
//! condition are not repeated: they have values.

use serde_json::{Map, Value};
use spindoctor_model::number;

use crate::amounts::amount_in_json;
use crate::json;
use crate::plan::{
    self, Estimates, FEWEST_ROWS, LEAST_SHARE, LONGEST_NAME, MOST, Scan, Step, index_names, is_scan,
    table_label,
};

/// Lines of one plan.
const MOST_LINES: usize = 50_000;
/// Lines below the first of what may be a plan that are looked at.
const NEAR: usize = 3;
/// Rows that were read, and the part of them that passed the condition, percent, from which on an index is likely missing. As the slow
/// query log has it: 10,000 rows, and 100 for each that is wanted.
const MANY_ROWS: f64 = 10_000.0;
const FEW_PERCENT: f64 = 1.0;

/// What is said of a plan that is not whole.
const CUT: &str = "it is cut, damaged or nested too deeply, so that nothing in it is used";

/// How a plan begins behind its bracket.
const BEGINS: [&str; 4] =
    ["\"query_block\"", "\"query_optimization\"", "\"r_query_time_in_progress_ms\"", PLAN];
/// How one of version 2 may begin, too: with its statement, in which the server marks each SELECT, or which stands right above this.
const STATEMENT: &str = "\"/* select#";
const PLAN: &str = "\"query_plan\"";

/// A line without a frame's bar and the name of its column: `| {`, `EXPLAIN: {`, `@v1: {`.
fn bare(line: &str) -> &str {
    let line = line.trim_start_matches(['|', ' ', '\t']);
    let is_name = |name: &str| {
        name.len() <= LONGEST_NAME && name.chars().all(|c| c.is_ascii_alphanumeric() || "_@".contains(c))
    };
    match line.split_once(": ") {
        Some((name, rest)) if is_name(name) && rest.starts_with('{') => rest,
        _ => line,
    }
}

/// Where a plan ends that begins in a line: behind that line. None where none begins there.
pub(crate) fn end(lines: &[&str], at: usize) -> Option<usize> {
    let begin = bare(Some(lines[at]).filter(|line| line.contains('{'))?);
    let inside = begin.strip_prefix('{')?.trim_start();
    let mut below = lines[at + 1..].iter().take(MOST_LINES);
    let next = || below.clone().take(NEAR).map(|line| line.trim_start()).find(|line| !line.is_empty());
    let first = if inside.is_empty() { next()? } else { inside };
    let has_plan = |line: &&str| line.contains(PLAN);
    let is_of_version_2 = || first.contains(STATEMENT) || below.clone().take(NEAR).any(has_plan);
    let is_plan = BEGINS.iter().any(|name| first.starts_with(name));
    if !(is_plan || first.starts_with("\"query\"") && is_of_version_2()) {
        return None;
    }
    let mut depth = Depth::default();
    let mut end = at + 1;
    let mut is_closed = depth.is_closed_by(begin);
    // Where it is cut, what follows it is no line of JSON.
    while let Some(line) = below.next().filter(|line| !is_closed && is_of_json(line)) {
        end += 1;
        is_closed = depth.is_closed_by(line);
    }
    Some(end)
}

/// True for a line as JSON in several lines has, or an empty one.
fn is_of_json(line: &str) -> bool {
    let line = line.trim_start();
    line.is_empty() || line.starts_with(['"', '{', '}', '[', ']'])
}

/// How deep in brackets a text is, read line by line.
#[derive(Debug, Default)]
struct Depth {
    open: usize,
    in_text: bool,
    is_escaped: bool,
}

impl Depth {
    /// Takes a line; true where it closes the outermost bracket.
    fn is_closed_by(&mut self, line: &str) -> bool {
        for byte in line.bytes() {
            if self.is_escaped {
                self.is_escaped = false;
                continue;
            }
            match (byte, self.in_text) {
                (b'\\', true) => self.is_escaped = true,
                (b'"', _) => self.in_text = !self.in_text,
                (b'{', false) => self.open += 1,
                (b'}', false) => {
                    self.open = self.open.saturating_sub(1);
                    if self.open == 0 {
                        return true;
                    }
                }
                _ => {}
            }
        }
        false
    }
}

/// What a plan says, in sentences.
pub(crate) fn read(text: &str) -> Vec<String> {
    let inside = text.find('{').zip(text.rfind('}')).and_then(|(from, to)| text.get(from..=to));
    let value: Option<Value> = inside
        .filter(|inside| json::has_few_values(inside))
        .and_then(|inside| serde_json::from_str(inside).ok());
    let Some(plan) = value else { return vec![CUT.to_owned()] };
    let mut found = Found::default();
    let so_far_ms = plan.get("r_query_time_in_progress_ms").and_then(amount_in_json);
    match plan.get("query_block") {
        Some(block) => {
            let whole_ms = block.as_object().and_then(|block| number_of(block, "r_total_time_ms"));
            found.whole_ms = whole_ms.filter(|_| so_far_ms.is_none());
            found.within("query_block", block);
        }
        None => {
            let root = plan.get("query_plan").unwrap_or(&plan);
            let total_ms = found.iterator(root);
            found.whole_ms = Some(total_ms);
        }
    }
    if !found.has_tables {
        return vec!["it names no table, so that nothing in it is used".to_owned()];
    }
    if !found.is_measured {
        return found.estimates.sentences();
    }
    let mut says: Vec<String> = so_far_ms.map(in_progress).into_iter().collect();
    if so_far_ms.is_some() {
        // Where there are fewer rows than expected, the others may be still to come.
        for step in &mut found.steps {
            step.expected_rows = step.expected_rows.filter(|rows| *rows < step.rows);
        }
    }
    says.extend(plan::sentences(found.whole_ms, &found.steps));
    let optimizer = plan.get("query_optimization").and_then(Value::as_object);
    let optimizer_ms = optimizer.and_then(|fields| number_of(fields, "r_total_time_ms")).unwrap_or(0.0);
    if optimizer_ms > 0.0 && optimizer_ms >= LEAST_SHARE * found.whole_ms.unwrap_or(0.0) {
        says.push(format!("the optimizer took {} beside that", number::duration(optimizer_ms / 1e3)));
    }
    says.extend(found.condition);
    says.extend(found.pages.sentences());
    says
}

/// What is said of a statement that still runs.
fn in_progress(so_far_ms: f64) -> String {
    let so_far = number::duration(so_far_ms / 1e3);
    format!("the statement has run for {so_far} and still does: times and rows are those so far")
}

fn number_of(fields: &Map<String, Value>, name: &str) -> Option<f64> {
    amount_in_json(fields.get(name)?)
}

fn text_of<'v>(fields: &'v Map<String, Value>, name: &str) -> &'v str {
    fields.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Pages that InnoDB read for a statement, by MariaDB's own count.
#[derive(Debug, Default)]
struct Pages {
    accessed: f64,
    read: f64,
    read_ms: f64,
    /// Versions of rows that are no longer the last.
    old_rows: f64,
}

impl Pages {
    fn add(&mut self, fields: &Map<String, Value>) {
        let count = |name: &str| number_of(fields, name).unwrap_or(0.0);
        self.accessed += count("pages_accessed");
        self.read += count("pages_read_count");
        self.read_ms += count("pages_read_time_ms");
        self.old_rows += count("old_rows_read");
    }

    fn sentences(&self) -> Vec<String> {
        let mut says = Vec::new();
        if self.read > 0.0 {
            says.push(format!(
                "InnoDB read {} of {} pages from disk, in {}",
                number::whole(self.read),
                number::whole(self.accessed.max(self.read)),
                number::duration(self.read_ms / 1e3)
            ));
        } else if self.accessed > 0.0 {
            says.push(format!(
                "InnoDB had the {} that it asked for in the buffer pool",
                number::counted(self.accessed as u64, "page", "pages")
            ));
        }
        if self.old_rows >= FEWEST_ROWS {
            says.push(format!(
                "it read {} old versions of rows, which transactions that stay open keep",
                number::whole(self.old_rows)
            ));
        }
        says
    }
}

/// What is found in a plan.
#[derive(Debug, Default)]
struct Found {
    steps: Vec<Step>,
    estimates: Estimates,
    whole_ms: Option<f64>,
    is_measured: bool,
    has_tables: bool,
    /// Of the table whose condition let the smallest part of many rows pass.
    condition: Option<String>,
    /// The rows of that table.
    condition_rows: f64,
    pages: Pages,
}

impl Found {
    /// A step of version 2, and those below it; the milliseconds of all of it.
    fn iterator(&mut self, node: &Value) -> f64 {
        let Some(fields) = node.as_object().filter(|_| self.steps.len() < MOST) else { return 0.0 };
        let operation = text_of(fields, "operation");
        let loops = number_of(fields, "actual_loops");
        let expected_rows = number_of(fields, "estimated_rows");
        self.is_measured |= loops.is_some();
        let label = plan::label(operation);
        let is_scan = ["Table scan on ", "Index scan on ", "Covering index scan on "]
            .iter()
            .any(|begin| operation.starts_with(begin));
        if is_scan {
            // Which indexes would fit, this version does not say.
            let rows = expected_rows.unwrap_or(0.0);
            self.estimates.add_scan(Scan { label: label.clone(), rows, possible: None });
        }
        self.estimates.sorts |= operation.starts_with("Sort");
        self.estimates.has_temporary_table |= operation.contains("temporary table");
        self.has_tables |= fields.contains_key("table_name");
        let total_ms = number_of(fields, "actual_last_row_ms").unwrap_or(0.0) * loops.unwrap_or(0.0);
        let at = self.steps.len();
        self.steps.push(Step {
            label,
            expected_rows,
            own_ms: 0.0,
            rows: number_of(fields, "actual_rows").unwrap_or(0.0),
            loops: loops.unwrap_or(0.0),
        });
        let mut all_of = |name: &str| -> f64 {
            let inputs = fields.get(name).and_then(Value::as_array);
            inputs.into_iter().flatten().map(|input| self.iterator(input)).sum()
        };
        let below_ms = all_of("inputs");
        // A subquery in the list of what is selected runs beside this step, in the time of the one above.
        let beside_ms = all_of("inputs_from_select_list");
        self.steps[at].own_ms = (total_ms - below_ms).max(0.0);
        total_ms + beside_ms
    }

    /// What stands below a name in version 1 and in MariaDB's plans; the milliseconds of the steps within it.
    fn within(&mut self, name: &str, value: &Value) -> f64 {
        match value {
            Value::Array(list) => list.iter().map(|one| self.within(name, one)).sum(),
            Value::Object(fields) => self.fields(name, fields),
            _ => 0.0,
        }
    }

    fn fields(&mut self, name: &str, fields: &Map<String, Value>) -> f64 {
        if name == "r_engine_stats" {
            self.pages.add(fields);
            return 0.0;
        }
        let is_true = |name: &str| fields.get(name).and_then(Value::as_bool) == Some(true);
        self.estimates.sorts |= name == "filesort" || is_true("using_filesort");
        self.estimates.has_temporary_table |= name == "temporary_table" || is_true("using_temporary_table");
        let own_ms = match name {
            "table" => self.table(fields),
            _ => 0.0,
        };
        let at = self.steps.len();
        let is_sort = name == "filesort" && fields.contains_key("r_loops") && at < MOST;
        if is_sort {
            self.steps.push(Step {
                label: "sort".to_owned(),
                expected_rows: None,
                own_ms: 0.0,
                rows: number_of(fields, "r_output_rows").unwrap_or(0.0),
                loops: number_of(fields, "r_loops").unwrap_or(0.0),
            });
        }
        let within_ms: f64 = fields.iter().map(|(name, value)| self.within(name, value)).sum();
        if !is_sort {
            return own_ms + within_ms;
        }
        // It reads the table itself, but where a temporary table stands between.
        let total_ms = number_of(fields, "r_total_time_ms").unwrap_or(0.0);
        let of_others_ms = if fields.contains_key("temporary_table") { 0.0 } else { within_ms };
        let own_ms = (total_ms - of_others_ms).max(0.0);
        self.steps[at].own_ms = own_ms;
        own_ms + within_ms
    }

    /// A table; the milliseconds that were spent on it.
    fn table(&mut self, fields: &Map<String, Value>) -> f64 {
        if text_of(fields, "table_name").is_empty() || self.steps.len() >= MOST {
            return 0.0;
        }
        self.has_tables = true;
        let how = text_of(fields, "access_type");
        let label = table_label(text_of(fields, "table_name"), how, text_of(fields, "key"));
        let of_server = ["rows_examined_per_scan", "rows"];
        let expected_rows = of_server.iter().find_map(|name| number_of(fields, name));
        if is_scan(how) {
            let names = fields.get("possible_keys").and_then(Value::as_array);
            let possible = Some(index_names(names.into_iter().flatten().filter_map(Value::as_str)));
            self.estimates.add_scan(Scan {
                label: label.clone(),
                rows: expected_rows.unwrap_or(0.0),
                possible,
            });
        }
        let Some(loops) = number_of(fields, "r_loops") else { return 0.0 };
        self.is_measured = true;
        let of_table = |name: &str| number_of(fields, name);
        let parts_ms = of_table("r_table_time_ms").map(|ms| ms + of_table("r_other_time_ms").unwrap_or(0.0));
        // Before MariaDB 10.6 there is one time for both.
        let own_ms = parts_ms.or_else(|| of_table("r_total_time_ms")).unwrap_or(0.0);
        let rows = of_table("r_rows").unwrap_or(0.0);
        self.remember_condition(fields, &label, rows * loops);
        self.steps.push(Step { label, expected_rows, own_ms, rows, loops });
        own_ms
    }

    /// Remembers a table of which many rows were read for few.
    fn remember_condition(&mut self, fields: &Map<String, Value>, label: &str, rows: f64) {
        let Some(percent) = number_of(fields, "r_filtered") else { return };
        if rows >= MANY_ROWS && rows > self.condition_rows && percent <= FEW_PERCENT {
            self.condition_rows = rows;
            self.condition = Some(format!(
                "of the {} rows of {label} {} passed its condition: an index on the columns of the condition reads fewer",
                number::whole(rows.round()),
                number::percent(percent / 100.0)
            ));
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
