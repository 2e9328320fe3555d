//! What `EXPLAIN` prints as a table, and MariaDB's `ANALYZE`: a row for each table of a statement, in sentences.
//!
//! ```text
//! | id | select_type | table | type | possible_keys | key  | key_len | ref  | rows   | Extra                       |
//! |  1 | SIMPLE      | o     | ALL  | by_state      | NULL | NULL    | NULL | 181234 | Using where; Using filesort |
//! ```
//!
//! `ANALYZE` has `r_rows` beside the estimate: how many there were each time. How often, and how long it took, it does not say. Where MariaDB
//! filters rows by a second index, both stand in a cell: `ref|filter`, `by_day|by_state`, `25 (14%)`.

use spindoctor_collect::mysql::Rows;
use spindoctor_model::number;

use crate::amounts::amount;
use crate::heads::is_number;
use crate::plan::{self, Estimates, MOST, Scan, Step, index_names, is_scan, table_label};
use crate::rows::{framed, header_of};
use crate::table_kind::{TableKind, kind};

/// What is said of a plan of which the rows were counted.
const COUNTED: &str = "the statement was run for it: its rows were counted, and its times were not";

/// True for the columns of such a table, in lower case.
pub(crate) fn is_list(columns: &[String]) -> bool {
    let has = |name: &str| columns.iter().any(|column| column == name);
    // The list of MySQL 4.0, and who left out what is the same in each row, have the way to read the table and the indexes.
    has("table") && (has("type") || has("possible_keys")) && has("select_type")
        || ["table", "type", "possible_keys", "key"].iter().all(|name| has(name))
}

/// The lines of a text with the head of such a table, where its rows were pasted without it. A text that has one is as it was.
pub(crate) fn with_head(lines: Vec<String>) -> Vec<String> {
    let is_head = |line: &String| header_of(line).is_some_and(|names| kind(&names) == Some(TableKind::Plan));
    let heads: Vec<Option<String>> = lines.iter().map(|line| head_of(line)).collect();
    if heads.iter().all(Option::is_none) || lines.iter().any(is_head) {
        return lines;
    }
    let mut whole = Vec::with_capacity(lines.len() + 1);
    let mut is_below_row = false;
    for (line, head) in lines.into_iter().zip(heads) {
        let is_row = head.is_some();
        whole.extend(head.filter(|_| !is_below_row));
        whole.push(line);
        is_below_row = is_row;
    }
    whole
}

/// The head of the table whose row this is: by the number of its cells, the kind of its statement, and how it reads a table.
fn head_of(line: &str) -> Option<String> {
    const NAMES: [&str; 14] = [
        "id",
        "select_type",
        "table",
        "partitions",
        "type",
        "possible_keys",
        "key",
        "key_len",
        "ref",
        "rows",
        "r_rows",
        "filtered",
        "r_filtered",
        "Extra",
    ];
    /// `select_type` (the manuals of MySQL and MariaDB, "EXPLAIN Output Format").
    const KINDS: [&str; 13] = [
        "SIMPLE",
        "PRIMARY",
        "UNION",
        "DEPENDENT UNION",
        "UNION RESULT",
        "SUBQUERY",
        "DEPENDENT SUBQUERY",
        "DERIVED",
        "MATERIALIZED",
        "UPDATE",
        "DELETE",
        "INSERT",
        "REPLACE",
    ];
    const ACCESSES: [&str; 13] = [
        "ALL",
        "index",
        "range",
        "ref",
        "eq_ref",
        "const",
        "system",
        "NULL",
        "ref_or_null",
        "fulltext",
        "index_merge",
        "unique_subquery",
        "index_subquery",
    ];
    let is_framed = line.trim_start().starts_with('|');
    let cells: Vec<&str> = if is_framed { framed(line) } else { line.split('\t').collect() };
    // EXPLAIN without its partitions, EXTENDED, that of MySQL from 5.7 on, and MariaDB's ANALYZE.
    let left_out: &[&str] = match cells.len() {
        10 => &["partitions", "r_rows", "filtered", "r_filtered"],
        11 => &["partitions", "r_rows", "r_filtered"],
        12 => &["r_rows", "r_filtered"],
        13 => &["partitions"],
        _ => return None,
    };
    let names: Vec<&str> = NAMES.into_iter().filter(|name| !left_out.contains(name)).collect();
    let access = names.iter().position(|name| *name == "type").and_then(|at| cells.get(at))?;
    let is_row =
        (is_number(cells[0]) || cells[0] == "NULL") && KINDS.contains(&cells[1]) && ACCESSES.contains(access);
    is_row.then(|| if is_framed { format!("| {} |", names.join(" | ")) } else { names.join("\t") })
}

/// The subqueries of a plan that are run for each row of the statement around them.
fn dependent(rows: &Rows) -> Option<String> {
    const NAMED: usize = 3;
    let is_dependent = |kind: &str| kind.starts_with("DEPENDENT ");
    let of = rows.iter().take(MOST).filter(|row| row.text("select_type").is_some_and(is_dependent));
    let tables = index_names(of.filter_map(|row| row.text("table")).take(NAMED));
    (!tables.is_empty()).then(|| {
        format!("its subquery on {tables} is run for each row of the statement around it (DEPENDENT)")
    })
}

/// The table of which each row is compared with each of those that the tables before it give, as no index joins them.
fn compared(rows: &Rows) -> Option<String> {
    const MANY: f64 = 1e6;
    let mut select = String::new();
    let mut before = 1.0_f64;
    let mut most: Option<(f64, String)> = None;
    for row in rows.iter().take(MOST) {
        let text = |name: &str| row.text(name).unwrap_or_default();
        let number = |name: &str| amount(text(name).split_whitespace().next()?);
        if text("id") != select {
            text("id").clone_into(&mut select);
            before = 1.0;
        }
        let pairs = before * number("r_rows").or_else(|| number("rows")).unwrap_or(1.0).max(1.0);
        let is_most = most.as_ref().is_none_or(|(known, _)| pairs > *known);
        if compares_each(text("extra")) && pairs >= MANY && is_most {
            most = Some((pairs, text("table").to_owned()));
        }
        let kept = number("r_filtered").or_else(|| number("filtered")).unwrap_or(100.0);
        before = (pairs * kept / 100.0).max(1.0);
    }
    let (pairs, table) = most?;
    let table = index_names(std::iter::once(table.as_str()));
    Some(format!(
        "each row of {table} is compared with each that the tables before it give: about {} pairs (join buffer: no index joins them)",
        number::whole(pairs)
    ))
}

/// True for a join buffer that is searched from its beginning to its end for each row: neither a hash join nor one that looks keys up.
fn compares_each(extra: &str) -> bool {
    let has = |word: &str| extra.contains(word);
    has("Using join buffer") && !["hash", "BNLH", "BKA", "Batched Key"].into_iter().any(has)
}

/// What its rows say.
pub(crate) fn sentences(rows: &Rows) -> Vec<String> {
    let mut estimates = Estimates::default();
    let mut steps: Vec<Step> = Vec::new();
    for row in rows.iter().take(MOST) {
        let text = |name: &str| row.text(name).unwrap_or_default();
        let number = |name: &str| amount(text(name).split_whitespace().next()?);
        let first = |name: &str| text(name).split('|').next().unwrap_or_default();
        let label = table_label(text("table"), first("type"), first("key"));
        let expected_rows = number("rows");
        if is_scan(first("type")) {
            let possible = Some(index_names(text("possible_keys").split(',')));
            estimates.add_scan(Scan { label: label.clone(), rows: expected_rows.unwrap_or(0.0), possible });
        }
        estimates.sorts |= text("extra").contains("Using filesort");
        estimates.has_temporary_table |= text("extra").contains("Using temporary");
        if let Some(rows) = number("r_rows") {
            steps.push(Step { label, expected_rows, own_ms: 0.0, rows, loops: 1.0 });
        }
    }
    let mut says = match steps.is_empty() {
        true => estimates.sentences(),
        false => std::iter::once(COUNTED.to_owned()).chain(plan::sentences(None, &steps)).collect(),
    };
    says.extend(compared(rows));
    says.extend(dependent(rows));
    says
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan_json::tests::says;

    #[test]
    fn a_plan_without_the_kind_of_its_statement_is_one() {
        let wanted = "Table scan on o: 181,234 rows expected each time; no index fits its conditions";
        let framed = "| table | type | possible_keys | key | key_len | ref | rows | Extra |\n\
                      | o | ALL | NULL | NULL | NULL | NULL | 181234 | Using where |\n";
        assert!(says(framed).contains(&wanted.to_owned()), "{:?}", says(framed));
    }

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
    fn rows_without_their_head_are_a_plan_of_which_the_dependent_subquery_is_said() {
        let cells = [
            "1 | PRIMARY | o | index | NULL | by_day | 4 | NULL | 181234 | Using index; Using temporary",
            "2 | DEPENDENT SUBQUERY | line | ref | by_order | by_order | 4 | shop.o.id | 3 | Using index",
        ];
        let framed = format!("+---+---+\n| {} |\n| {} |\n", cells[0], cells[1]);
        let tabs = format!("{}\n", cells.join("\n").replace(" | ", "\t"));
        let of_8_0 = framed.replace("| o |", "| o | NULL |").replace("| line |", "| line | NULL |");
        let of_8_0 = of_8_0.replace("| Using", "| 100.00 | Using");
        for text in [framed, tabs, of_8_0] {
            assert_eq!(
                says(&text)[1..],
                [
                    "Index scan on o using by_day: 181,234 rows expected each time; no index fits its conditions",
                    "it makes a temporary table",
                    "its subquery on line is run for each row of the statement around it (DEPENDENT)",
                ],
                "{text}"
            );
        }
        assert_eq!(head_of("| 1 | a | b | ALL | c | d | e | f | g | h |"), None);
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

    #[test]
    fn rows_that_are_compared_pair_by_pair_are_counted_and_those_of_a_hash_join_are_not() {
        let found = |buffer: &str, rows: &str| {
            says(&format!(
                "id\tselect_type\ttable\ttype\tpossible_keys\tkey\tkey_len\tref\trows\tExtra\n\
                 1\tSIMPLE\to\tALL\tNULL\tNULL\tNULL\tNULL\t{rows}\tNULL\n\
                 1\tSIMPLE\tc\tALL\tNULL\tNULL\tNULL\tNULL\t20000\tUsing where; Using join buffer ({buffer})\n"
            ))
            .concat()
        };
        for buffer in ["Block Nested Loop", "flat, BNL join"] {
            let says = found(buffer, "9000");
            let wanted =
                "each row of c is compared with each that the tables before it give: about 180,000,000 pairs";
            assert!(says.contains(wanted), "{says}");
        }
        for (buffer, rows) in
            [("hash join", "9000"), ("flat, BNLH join", "9000"), ("Block Nested Loop", "20")]
        {
            assert!(!found(buffer, rows).contains("compared"), "{buffer}");
        }
    }

    fn row(cells: &[(&str, &str)]) -> Rows {
        let (names, cells): (Vec<&str>, Vec<&str>) = cells.iter().copied().unzip();
        let names = names.into_iter().map(str::to_owned).collect();
        Rows::new(names, vec![cells.into_iter().map(|cell| Some(cell.to_owned())).collect()])
    }

    #[test]
    fn of_two_indexes_in_a_cell_the_first_looks_the_rows_up() {
        let says = sentences(&row(&[
            ("table", "o"),
            ("type", "ref|filter"),
            ("key", "by_day|by_state"),
            ("rows", "25 (14%)"),
            ("r_rows", "90000.00 (14%)"),
        ]));
        let wanted =
            "the optimizer expected 25 rows of Index lookup on o using by_day, and there were 90,000";
        assert!(says[1].starts_with(wanted), "{says:?}");
    }

    #[test]
    fn a_cell_with_more_names_than_a_table_has_indexes_is_cut() {
        let names = "by_day,".repeat(100_000);
        let cells = [("table", "o"), ("type", "ALL"), ("possible_keys", names.as_str()), ("rows", "1e6")];
        assert!(sentences(&row(&cells)).concat().len() < 1_000);
    }
}
