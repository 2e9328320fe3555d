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
//! the third MariaDB's, of which the names with `r_` were measured. Times of MariaDB are of all loops (sql/sql_explain.cc). A statement
//! and a condition are not repeated: they have values.

use serde_json::{Map, Value};
use spindoctor_model::number;

use crate::json;
use crate::plan::{self, Estimates, FEWEST_ROWS, LEAST_SHARE, MOST, SHOWN, Scan, Step};

/// Lines of one plan.
const MOST_LINES: usize = 50_000;
/// Lines below the first of what may be a plan that are looked at.
const NEAR: usize = 3;
/// Rows that were read, and the part of them that passed the condition, percent, from which on an index is likely missing. As the slow
/// query log has it: 10,000 rows, and 100 for each that is wanted.
const MANY_ROWS: f64 = 10_000.0;
const FEW_PERCENT: f64 = 1.0;

/// What is said of a plan that is not whole.
const CUT: &str = "it is cut or damaged, so that nothing in it is used";

/// How a plan begins behind its bracket.
const BEGINS: [&str; 3] = ["\"query_block\"", "\"query_optimization\"", PLAN];
/// How one of version 2 may begin, too: with its statement, in which the server marks each SELECT, or which stands right above this.
const STATEMENT: &str = "\"/* select#";
const PLAN: &str = "\"query_plan\"";

/// A line without a frame's bar and the name of its column: `| {`, `EXPLAIN: {`, `@v1: {`.
fn bare(line: &str) -> &str {
    const LONGEST_NAME: usize = 64;
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
    match plan.get("query_block") {
        Some(block) => {
            found.whole_ms = block.as_object().and_then(|block| number_of(block, "r_total_time_ms"));
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
    let mut says = plan::sentences(found.whole_ms, &found.steps);
    let optimizer = plan.get("query_optimization").and_then(Value::as_object);
    let optimizer_ms = optimizer.and_then(|fields| number_of(fields, "r_total_time_ms")).unwrap_or(0.0);
    if optimizer_ms > 0.0 && optimizer_ms >= LEAST_SHARE * found.whole_ms.unwrap_or(0.0) {
        says.push(format!("the optimizer took {} beside that", number::duration(optimizer_ms / 1e3)));
    }
    says.extend(found.condition);
    says.extend(found.pages.sentences());
    says
}

/// A number, which MySQL writes as a text at some places: `"filtered": "10.00"`.
fn number_of(fields: &Map<String, Value>, name: &str) -> Option<f64> {
    let value = fields.get(name)?;
    let number = value.as_f64().or_else(|| value.as_str()?.parse().ok())?;
    Some(number).filter(|number: &f64| number.is_finite() && *number >= 0.0)
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
            self.estimates.scans.push(Scan { label: label.clone(), rows, possible: None });
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
        let inputs = fields.get("inputs").and_then(Value::as_array);
        let below_ms: f64 = inputs.into_iter().flatten().map(|input| self.iterator(input)).sum();
        self.steps[at].own_ms = (total_ms - below_ms).max(0.0);
        total_ms
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
        let is_full = self.steps.len() >= MOST || self.estimates.scans.len() >= MOST;
        if text_of(fields, "table_name").is_empty() || is_full {
            return 0.0;
        }
        self.has_tables = true;
        let how = text_of(fields, "access_type");
        let label = table_label(text_of(fields, "table_name"), how, text_of(fields, "key"));
        let of_server = ["rows_examined_per_scan", "rows"];
        let expected_rows = of_server.iter().find_map(|name| number_of(fields, name));
        if is_scan(how) {
            let names = fields.get("possible_keys").and_then(Value::as_array);
            let names = names.into_iter().flatten().filter_map(Value::as_str);
            let names: Vec<&str> = names.take(MOST_NAMES).collect();
            let rows = expected_rows.unwrap_or(0.0);
            self.estimates.scans.push(Scan { label: label.clone(), rows, possible: Some(names.join(", ")) });
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

/// Names of indexes that are listed.
const MOST_NAMES: usize = 8;

/// True for the way to read a table or an index whole.
pub(crate) fn is_scan(access: &str) -> bool {
    matches!(access, "ALL" | "index")
}

/// What is done with a table, in the words of `EXPLAIN ANALYZE`.
pub(crate) fn table_label(table: &str, access: &str, key: &str) -> String {
    let what = match access {
        "ALL" => "Table scan on",
        "index" => "Index scan on",
        "range" => "Index range scan on",
        "ref" | "ref_or_null" | "eq_ref" => "Index lookup on",
        "const" | "system" => "Constant row of",
        "fulltext" => "Full-text index search on",
        "index_merge" => "Index merge on",
        _ => "Reading of",
    };
    let using = if key.is_empty() { String::new() } else { format!(" using {key}") };
    format!("{what} {table}{using}").chars().take(SHOWN).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::part::Kind;
    use crate::recognise;

    const MARIADB: &str = r#"{
  "query_optimization": {
    "r_total_time_ms": 0.2
  },
  "query_block": {
    "select_id": 1,
    "cost": 812.5,
    "r_loops": 1,
    "r_total_time_ms": 4000,
    "filesort": {
      "sort_key": "o.total desc",
      "r_loops": 1,
      "r_total_time_ms": 100,
      "r_output_rows": 5,
      "temporary_table": {
        "nested_loop": [
          {
            "table": {
              "table_name": "o",
              "access_type": "ALL",
              "possible_keys": ["by_state"],
              "r_loops": 1,
              "rows": 200,
              "r_rows": 900000,
              "r_table_time_ms": 2900,
              "r_other_time_ms": 100,
              "r_engine_stats": { "pages_accessed": 8123, "pages_read_count": 812, "pages_read_time_ms": 1500 },
              "filtered": 100,
              "r_filtered": 0.5,
              "attached_condition": "o.state = 'secret'"
            }
          },
          {
            "table": {
              "table_name": "c",
              "access_type": "eq_ref",
              "key": "PRIMARY",
              "r_loops": 450,
              "rows": 1,
              "r_rows": 1,
              "r_table_time_ms": 700,
              "r_other_time_ms": 100,
              "r_engine_stats": { "pages_accessed": 450, "old_rows_read": 4500 },
              "r_filtered": 100
            }
          }
        ]
      }
    }
  }
}"#;

    const VERSION_2: &str = r#"{
  "query": "/* select#1 */ select `o`.`id` from `shop`.`orders` `o` where (`o`.`state` = 'secret')",
  "query_plan": {
    "inputs": [
      {
        "operation": "Table scan on o",
        "table_name": "orders",
        "access_type": "table",
        "actual_rows": 900000.0,
        "actual_loops": 1,
        "estimated_rows": 200.0,
        "actual_last_row_ms": 900.0,
        "actual_first_row_ms": 0.1,
        "estimated_total_cost": 20.5
      }
    ],
    "condition": "(o.state = 'secret')",
    "operation": "Filter: (o.state = 'secret')",
    "access_type": "filter",
    "actual_rows": 17.0,
    "actual_loops": 1,
    "estimated_rows": 20.0,
    "actual_last_row_ms": 1000.0,
    "estimated_total_cost": 20.5
  },
  "query_type": "select",
  "json_schema_version": "2.0"
}"#;

    const VERSION_1: &str = r#"{
  "query_block": {
    "select_id": 1,
    "cost_info": {
      "query_cost": "20123.40"
    },
    "ordering_operation": {
      "using_filesort": true,
      "grouping_operation": {
        "using_temporary_table": true,
        "using_filesort": false,
        "nested_loop": [
          {
            "table": {
              "table_name": "o",
              "access_type": "ALL",
              "possible_keys": [
                "by_state",
                "by_day"
              ],
              "rows_examined_per_scan": 181234,
              "filtered": "10.00",
              "attached_condition": "(`shop`.`o`.`state` = 'secret')"
            }
          },
          {
            "table": {
              "table_name": "c",
              "access_type": "eq_ref",
              "key": "PRIMARY",
              "rows_examined_per_scan": 1
            }
          }
        ]
      }
    }
  }
}"#;

    /// A plan as clients print it, as a page shows it, and as it stands in a letter.
    fn forms(plan: &str) -> Vec<String> {
        let star = "*".repeat(27);
        let one_line: String = plan.lines().map(str::trim).collect();
        let quoted: String = plan.lines().map(|line| format!("> {line}\n")).collect();
        vec![
            format!("{plan}\n"),
            format!("{one_line}\n"),
            format!(
                "+-----+\n| EXPLAIN |\n+-----+\n| {plan} |\n+-----+\n1 row in set, 1 warning (0.00 sec)\n"
            ),
            format!("{star} 1. row {star}\nEXPLAIN: {plan}\n1 row in set, 1 warning (0.00 sec)\n"),
            format!("{star} 1. row {star}\nANALYZE: {plan}\n1 row in set (0.00 sec)\n"),
            format!("EXPLAIN\n{}\n", plan.replace('\n', "\\n")),
            format!("It is slow since the update:\n\n```json\n{plan}\n```\n\nThanks\n"),
            format!("> Hi,\n>\n{quoted}>\n> can you look?\n"),
        ]
    }

    /// What is said of a text that is one plan.
    pub(crate) fn says(text: &str) -> Vec<String> {
        let parts = recognise("x", text);
        let kinds: Vec<Kind> = parts.iter().map(|part| part.kind).collect();
        assert_eq!(kinds, [Kind::Plan], "{text}: {parts:?}");
        parts.into_iter().flat_map(|part| part.says).collect()
    }

    #[test]
    fn what_mariadb_measured_is_said_in_every_form_and_no_value_is() {
        for text in forms(MARIADB) {
            assert_eq!(
                says(&text),
                [
                    "the statement took 4 s",
                    "75 % of the time: Table scan on o, 1 time, 900,000 rows each time",
                    "20 % of the time: Index lookup on c using PRIMARY, 450 times, 1 row each time",
                    "the optimizer expected 200 rows of Table scan on o, and there were 900,000: ANALYZE TABLE, a histogram or another \
                     index gives it better numbers",
                    "of the 900,000 rows of Table scan on o 0.5 % passed its condition: an index on the columns of the condition reads \
                     fewer",
                    "InnoDB read 812 of 8573 pages from disk, in 1.5 s",
                    "it read 4500 old versions of rows, which transactions that stay open keep",
                ],
                "{text}"
            );
        }
    }

    #[test]
    fn what_mysql_measured_is_said_with_the_plan_in_its_envelope_and_without() {
        let wanted = [
            "the statement took 1 s",
            "90 % of the time: Table scan on o, 1 time, 900,000 rows each time",
            "10 % of the time: Filter, 1 time, 17 rows each time",
            "the optimizer expected 200 rows of Table scan on o, and there were 900,000: ANALYZE TABLE, a histogram or another index \
             gives it better numbers",
        ];
        for text in forms(VERSION_2) {
            assert_eq!(says(&text), wanted, "{text}");
        }
        let value: Value = serde_json::from_str(VERSION_2).unwrap();
        let mut plan = value["query_plan"].as_object().unwrap().clone();
        plan.insert("query".to_owned(), value["query"].clone());
        // MySQL 8.3 has the statement beside the names of the first step.
        let rest = serde_json::to_string_pretty(&plan).unwrap().replace("  \"query\": ", "  \"old\": ");
        let bare = rest.replacen('{', &format!("{{\n  \"query\": {},", value["query"]), 1);
        assert_eq!(says(&bare), wanted, "{bare}");
    }

    #[test]
    fn a_plan_that_was_not_run_is_said_to_be_one_with_what_it_reads_whole() {
        for text in forms(VERSION_1) {
            let says = says(&text);
            assert!(says[0].starts_with("the statement was not run for it"), "{says:?}");
            assert_eq!(
                says[1..],
                [
                    "Table scan on o: 181,234 rows expected each time; by none of the indexes that fit its conditions are rows looked up \
                     (by_state, by_day)",
                    "it sorts rows: no index gives them in that order",
                    "it makes a temporary table",
                ],
                "{text}"
            );
        }
        let small = VERSION_1.replace("181234", "12").replace("true", "false");
        assert_eq!(says(&small)[1..], ["no step of it reads a table or an index of 1000 rows or more whole"]);
    }

    #[test]
    fn a_plan_beside_other_documents_takes_nothing_of_them() {
        let list = "Id\tUser\tHost\tdb\tCommand\tTime\tState\tInfo\n7\tapp\th:1\tshop\tQuery\t3\tSending data\tSELECT 1\n";
        for plan in [VERSION_1.to_owned(), VERSION_1[..VERSION_1.len() / 2].trim_end().to_owned()] {
            let text = format!("{list}\n{plan}\n\n{list}");
            let kinds: Vec<Kind> = recognise("x", &text).iter().map(|part| part.kind).collect();
            assert_eq!(kinds, [Kind::ProcessList, Kind::Plan, Kind::ProcessList], "{text}");
        }
        let two = format!("{VERSION_1}\n{VERSION_2}\n");
        assert_eq!(recognise("x", &two).iter().filter(|part| part.kind == Kind::Plan).count(), 2);
    }

    #[test]
    fn a_cut_plan_is_one_of_which_nothing_is_used_and_other_json_is_none() {
        let cut: String = VERSION_2.lines().take(9).map(|line| format!("{line}\n")).collect();
        assert_eq!(says(&cut), [CUT]);
        for text in [
            "{\"query\": \"SELECT 1\", \"took_ms\": 3}\n",
            "[{ \"Plan\": { \"Node Type\": \"Seq Scan\", \"Relation Name\": \"o\" } }]\n",
            "{\n  \"a\": {\n    \"b\": 1\n  }\n}\n",
        ] {
            assert!(recognise("x", text).iter().all(|part| part.kind == Kind::Unknown), "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn no_text_makes_it_fail(text in "(\\{\"query_block\": |\\{\"query_plan\": |\\{|\\}|\\[|\\]|\"table\": |\"table_name\": \"o\"|\"r_loops\": |\"actual_loops\": |\"inputs\": |\"rows\": |\"|\\\\|,|1e308|7|é|\n){0,60}") {
            let _read = recognise("x", &text);
        }
    }
}
