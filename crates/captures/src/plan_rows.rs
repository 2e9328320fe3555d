//! What `EXPLAIN` prints as a table, and MariaDB's `ANALYZE`: a row for each table of a statement, in sentences.
//!
//! ```text
//! | id | select_type | table | type | possible_keys | key  | key_len | ref  | rows   | Extra                       |
//! |  1 | SIMPLE      | o     | ALL  | by_state      | NULL | NULL    | NULL | 181234 | Using where; Using filesort |
//! ```
//!
//! `ANALYZE` has `r_rows` and `r_filtered` beside the estimates: what there was. Times it has not.

use spindoctor_collect::mysql::Rows;

use crate::plan::{self, Estimates, MOST, Scan, Step};
use crate::plan_json::{is_scan, table_label};

/// What is said of a plan of which the rows were counted.
const COUNTED: &str = "the statement was run for it: its rows were counted, and its times were not";

/// True for the columns of such a table, in lower case.
pub(crate) fn is_list(columns: &[String]) -> bool {
    let has = |name: &str| columns.iter().any(|column| column == name);
    has("select_type") && has("table") && (has("type") || has("possible_keys"))
}

/// What its rows say.
pub(crate) fn sentences(rows: &Rows) -> Vec<String> {
    let mut estimates = Estimates::default();
    let mut steps: Vec<Step> = Vec::new();
    for row in rows.iter().take(MOST) {
        let text = |name: &str| row.text(name).unwrap_or_default();
        let number = |name: &str| row.number::<f64>(name).filter(|number| *number >= 0.0);
        let label = table_label(text("table"), text("type"), text("key"));
        let expected_rows = number("rows");
        if is_scan(text("type")) {
            let possible = Some(text("possible_keys").replace(',', ", "));
            let rows = expected_rows.unwrap_or(0.0);
            estimates.scans.push(Scan { label: label.clone(), rows, possible });
        }
        estimates.sorts |= text("extra").contains("Using filesort");
        estimates.has_temporary_table |= text("extra").contains("Using temporary");
        if let Some(rows) = number("r_rows") {
            steps.push(Step { label, expected_rows, own_ms: 0.0, rows, loops: 1.0 });
        }
    }
    if steps.is_empty() {
        return estimates.sentences();
    }
    let mut says = vec![COUNTED.to_owned()];
    says.extend(plan::sentences(None, &steps));
    says
}

#[cfg(test)]
mod tests {
    use crate::plan_json::tests::says;

    #[test]
    fn what_is_read_whole_is_said_in_a_frame_with_g_and_with_tabs() {
        let names =
            ["id", "select_type", "table", "type", "possible_keys", "key", "key_len", "ref", "rows", "Extra"];
        let rows = [
            [
                "1",
                "SIMPLE",
                "o",
                "ALL",
                "by_state,by_day",
                "NULL",
                "NULL",
                "NULL",
                "181234",
                "Using where; Using filesort",
            ],
            ["1", "SIMPLE", "c", "eq_ref", "PRIMARY", "PRIMARY", "4", "shop.o.customer", "1", "NULL"],
        ];
        let border = format!("+{}\n", "----+".repeat(names.len()));
        let framed = |cells: &[&str]| format!("| {} |\n", cells.join(" | "));
        let frame: String = rows.iter().map(|row| framed(row)).collect();
        let star = "*".repeat(27);
        let vertical = |(at, row): (usize, &[&str; 10])| {
            let cells = names.iter().zip(row).map(|(name, cell)| format!("{name:>13}: {cell}\n"));
            format!("{star} {}. row {star}\n{}", at + 1, cells.collect::<String>())
        };
        let vertical: String = rows.iter().enumerate().map(vertical).collect();
        let tabs: String = rows.iter().map(|row| row.join("\t") + "\n").collect();
        for text in [
            format!("{border}{}{border}{frame}{border}2 rows in set (0.00 sec)\n", framed(&names)),
            format!("mysql> explain select * from o\\G\n{vertical}2 rows in set (0.00 sec)\n"),
            format!("{}\n{tabs}", names.join("\t")),
        ] {
            assert_eq!(
                says(&text)[1..],
                [
                    "Table scan on o: 181,234 rows expected each time; by none of the indexes that fit its conditions are rows looked up \
                     (by_state, by_day)",
                    "it sorts rows: no index gives them in that order",
                ],
                "{text}"
            );
        }
    }

    #[test]
    fn rows_that_mariadb_counted_are_held_against_the_estimate() {
        let text = "id\tselect_type\ttable\ttype\tpossible_keys\tkey\tkey_len\tref\trows\tr_rows\tfiltered\tr_filtered\tExtra\n\
                    1\tSIMPLE\to\tALL\tNULL\tNULL\tNULL\tNULL\t200\t900000.00\t100.00\t0.10\tUsing where\n";
        assert_eq!(
            says(text),
            [
                "the statement was run for it: its rows were counted, and its times were not",
                "the optimizer expected 200 rows of Table scan on o, and there were 900,000: ANALYZE TABLE, a histogram or another index \
                 gives it better numbers",
            ]
        );
    }
}
