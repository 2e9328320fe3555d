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
        format!("+-----+\n| EXPLAIN |\n+-----+\n| {plan} |\n+-----+\n1 row in set, 1 warning (0.00 sec)\n"),
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
fn a_statement_that_still_runs_is_said_to_do_so_and_no_row_is_missed_yet() {
    let plan = r#"{
  "r_query_time_in_progress_ms": 32138,
  "query_block": {
    "select_id": 1,
    "r_loops": 1,
    "nested_loop": [
      {
        "table": {
          "table_name": "c",
          "access_type": "ALL",
          "r_loops": 1,
          "rows": 199786,
          "r_rows": 11,
          "r_table_time_ms": 300,
          "r_other_time_ms": 100
        }
      }
    ]
  }
}"#;
    let wanted = [
        "the statement has run for 32.1 s and still does: times and rows are those so far",
        "100 % of the time: Table scan on c, 1 time, 11 rows each time",
    ];
    for text in forms(plan) {
        assert_eq!(says(&text), wanted, "{text}");
    }
    let more = plan.replace("199786", "2").replace("\"r_rows\": 11", "\"r_rows\": 110544");
    assert!(says(&more)[2].starts_with("the optimizer expected 2 rows of Table scan on c"), "{more}");
}

#[test]
fn a_subquery_in_the_list_of_what_is_selected_takes_its_time_beside_the_first_step() {
    let subquery = r#""inputs_from_select_list": [
      {
        "heading": "Select #2 (subquery in projection; dependent)",
        "operation": "Aggregate: avg(s.b)",
        "actual_rows": 1.0,
        "actual_loops": 17,
        "actual_last_row_ms": 1000.0
      }
    ],
    "condition":"#;
    let says = says(&VERSION_2.replacen("\"condition\":", subquery, 1));
    assert_eq!(
        says[..2],
        ["the statement took 18 s", "94 % of the time: Aggregate, 17 times, 1 row each time"],
        "{says:?}"
    );
}

#[test]
fn what_a_hostile_plan_says_is_short_and_has_numbers() {
    let long = "x".repeat(100_000);
    let names = VERSION_1.replace("\"o\"", &format!("\"{long}\""));
    let names = names.replace("\"by_state\"", &format!("{}\"{long}\"", "\"by_time\", ".repeat(1_000)));
    assert!(says(&names).concat().len() < 1_000);
    for time in ["1e308", "1e30"] {
        let times = MARIADB.replace(": 4000", &format!(": {time}")).replace(": 2900", ": 1e30");
        let said = says(&times).concat();
        assert!(!said.contains("NaN") && !said.contains("inf"), "{said}");
    }
    let deep = format!("{{\"query_block\": {}", "{\"a\": ".repeat(10_000));
    assert_eq!(says(&deep), [CUT]);
}

#[test]
fn what_the_server_makes_itself_is_no_table_that_lacks_an_index() {
    let made = VERSION_1.replace("\"o\"", "\"<derived2>\"").replace("true", "false");
    assert_eq!(says(&made)[1..], ["no step of it reads a table or an index of 1000 rows or more whole"]);
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
