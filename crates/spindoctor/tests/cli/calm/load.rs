//! Waits over time on real servers: who waited for a row, second by second, in every form.

use serde_json::Value;
use spindoctor_lab::Which;

use super::literals::{SHAPE, held_up};
use crate::program::{json, printed, successful};

/// Sessions wait for a row while a recorder runs and somebody looks: in each second of which InnoDB's transactions were read
/// that is the largest class, and theirs the first statement. On a machine that is full their list is read every other second.
fn is_shown_over_time(which: Which) {
    held_up(which, |server, waiters| {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, out) = (folder.path().join("a.spindoctor"), folder.path().join("out.csv"));
        let connection = format!("-u root -S {} --no-defaults", server.socket().display());
        successful(&format!("record -o {} --duration 5s --no-stacks {connection}", file.display()));
        let name = file.display();
        let page = folder.path().join("r.html");

        let json = json(&format!("report {name} --from -1h --html {} --json", page.display()));
        let load = &json["sessions_at_work"];
        let seconds = load["over_time"].as_array().expect("a list");
        assert!(seconds.len() >= 3, "{load:#}");
        let mut without = 0;
        for second in seconds {
            let classes = second["sessions"].as_object().expect("classes");
            let number = |class: &str| classes.get(class).and_then(Value::as_f64).unwrap_or(0.0);
            if number("row-lock") == 0.0 {
                without += 1;
                continue;
            }
            assert_eq!(number("row-lock"), waiters as f64, "{second:#}");
            assert!(classes.keys().all(|class| number(class) <= number("row-lock")), "{second:#}");
        }
        assert!(seconds.len() - without >= 2, "{load:#}");
        assert_eq!(load["during"]["lists_without_transactions"], without, "{load:#}");
        let first = &load["during"]["statements"][0];
        assert!(first["digest_text"].as_str().is_some_and(|text| text.starts_with(SHAPE)), "{first:#}");
        assert!(first["sessions"]["row-lock"].as_f64() > Some(0.0), "{first:#}");
        let page = std::fs::read_to_string(page).expect("the page");
        for part in ["Sessions at work", "row lock", "By statement and class", "class=\"layer\""] {
            assert!(page.contains(part), "{part} is missing");
        }
        let (text, _) =
            printed(&format!("report {name} --from -1h --html {}", folder.path().join("b.html").display()));
        assert!(text.contains("sessions at work, during: ") && text.contains("row lock"), "{text}");

        successful(&format!("export {name} --table sessions_at_work --out {}", out.display()));
        let rows = std::fs::read_to_string(&out).expect("a table");
        assert!(
            rows.starts_with(
                "server,segment,time,seconds,class,digest_text,sessions,state,known_by,has_lock_waits\r\n"
            ),
            "{rows}"
        );
        let waiting: f64 = rows
            .lines()
            .filter(|row| row.contains(",row-lock,") && row.contains(SHAPE) && row.ends_with(",true"))
            .filter_map(|row| row.rsplit(',').nth(3)?.parse::<f64>().ok())
            .sum();
        assert!(waiting >= 3.0, "{rows}");

        for line in [
            format!("top --once --screen load --replay {name}"),
            format!("top --once --screen load --duration 2s {connection}"),
        ] {
            let (text, code) = printed(&line);
            // On average over the lists, those without transactions among them.
            let shown = text.split("row lock ").nth(1).and_then(|rest| rest.split_whitespace().next());
            let sessions = shown.and_then(|sessions| sessions.parse::<f64>().ok()).unwrap_or_default();
            assert!(code == 0 && sessions > 0.0 && sessions <= waiters as f64, "{line}: {text}");
            assert!(text.contains("UPDATE customers"), "{line}: {text}");
        }
    });
}

#[test]
fn who_waits_for_a_row_is_shown_second_by_second_on_mysql() {
    is_shown_over_time(Which::Mysql);
}

#[test]
fn who_waits_for_a_row_is_shown_second_by_second_on_mariadb() {
    is_shown_over_time(Which::Mariadb);
}
