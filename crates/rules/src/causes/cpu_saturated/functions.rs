//! Stored functions that a statement calls, most likely for each of its rows.

use spindoctor_model::{Evidence, Remedy, Window, number};
use spindoctor_sql::{Mode, Token, lex};

use crate::seen_most::{SeenMost, is_within_program};
use crate::sessions;
use crate::spin_samples::{SpinSamples, names};

/// Share of the CPU samples from which on stored functions are what the CPUs are full of. Chosen: half is most.
const MOST: f64 = 0.5;

/// What runs a stored function (sql/sp_head.cc), and the item that calls it (sql/item_func.cc). Procedures and triggers have others.
const RUNS: &str = "sp_head::execute_function";
const CALLS: &str = "Item_func_sp::";

/// Stored functions that take most of the CPU.
pub(super) struct Functions {
    /// Share of the CPU samples.
    share: f64,
    /// The one that the statement names with its schema, where that is one alone.
    name: Option<String>,
    /// The statement seen most, which most likely calls it.
    statement: Option<String>,
}

impl Functions {
    pub(super) fn from_window(window: &Window, most: Option<&SeenMost<'_>>) -> Option<Self> {
        let samples = SpinSamples::from_window(window).ok()?;
        let profile = samples.profile();
        let is_in_one = |name: &str| name == RUNS || name.starts_with(CALLS);
        let share = samples.share_of(|sample| names(profile, sample).any(is_in_one));
        let statement = most.map(|most| most.statement.clone());
        let name = statement.as_deref().and_then(routine);
        (share >= MOST).then_some(Self { share, name, statement })
    }

    /// The end of a headline.
    pub(super) fn headline(&self) -> String {
        let part = number::whole_percent(self.share);
        let Some(statement) = &self.statement else {
            return format!("; stored functions take {part} of the CPU");
        };
        // What calls the function was not seen.
        if is_within_program(statement) {
            let statement = sessions::shortened(statement);
            return format!(
                "; a stored function takes {part} of the CPU; seen most within a stored program: {statement}"
            );
        }
        let name = self.name.as_ref().map_or_else(String::new, |name| format!("{name}, "));
        // Without a table there are no rows.
        let has_rows =
            spindoctor_sql::first_table(statement).is_some_and(|table| !table.eq_ignore_ascii_case("dual"));
        let how = if has_rows { "for each row of" } else { "called by" };
        let statement = sessions::shortened(statement);
        format!("; a stored function takes {part} of the CPU: most likely {name}{how} {statement}")
    }

    /// The end of why.
    pub(super) fn why(&self) -> &'static str {
        " A stored function is interpreted, instruction by instruction, at each call: a statement that calls it for each row takes many \
         times the CPU of one that has the same expression in its text."
    }

    pub(super) fn evidence(&self) -> Evidence {
        Evidence::new("CPU in stored functions", self.share, "ratio", "CPU samples")
            .expected(format!("< {MOST}"))
    }

    pub(super) fn remedy(&self) -> Remedy {
        let show = match &self.name {
            Some(name) => format!("SHOW CREATE FUNCTION {name}"),
            None => "SHOW CREATE FUNCTION of those that the statement calls".to_owned(),
        };
        Remedy {
            statement: format!("{show}; then what it does as an expression of the statement, or in the application"),
            why: "An expression is computed without its calls. Where the function reads a table, a join reads it once; where its result \
                  depends on its row alone, a generated column keeps it."
                .into(),
            dynamic: true,
            risk: "The first part only reads. The rest is a change of the application.".into(),
            undo: "The statement as it was.".into(),
        }
    }
}

/// True for `shop.rating(`.
fn is_call(four: &[&Token<'_>]) -> bool {
    four[0].is_name() && four[1].is_sign(".") && four[2].is_name() && four[3].is_sign("(")
}

/// The function that a statement names with its schema, where that is one alone: without a schema it may be the server's own.
fn routine(statement: &str) -> Option<String> {
    /// Before the name of a table, behind which its columns stand.
    const OF_TABLE: [&str; 5] = ["into", "insert", "replace", "ignore", "table"];
    let lexed = lex(statement, Mode::UNKNOWN);
    let code: Vec<&Token<'_>> = lexed.code().collect();
    let is_table = |at: usize| at > 0 && code[at - 1].is_one_of(&OF_TABLE);
    let calls = code.windows(4).enumerate().filter(|(at, four)| is_call(four) && !is_table(*at));
    let mut called: Vec<String> =
        calls.map(|(_, four)| format!("{}.{}", four[0].name(), four[2].name())).collect();
    called.sort();
    called.dedup();
    match <[String; 1]>::try_from(called) {
        Ok([name]) => Some(name),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use spindoctor_model::Severity;

    use super::routine;
    use crate::testing::{Build, session};

    const SUM: &str = "SELECT SUM(shop.rating(k)) FROM orders WHERE id BETWEEN 1 AND 30";
    const FRAMES: &[&str] = &[
        "sp_instr_set::exec_core",
        "sp_head::execute",
        "sp_head::execute_function",
        "Item_func_sp::execute",
    ];

    #[test]
    fn a_stored_function_that_fills_the_cpus_is_named_with_the_statement_that_calls_it() {
        let of = |share: f64, statement: &'static str| {
            let sessions = move |_| (20..26).map(|id| session(id, "Query", "executing", statement)).collect();
            let build = Build::busy("9.7.4").sessions(sessions).running(1000, share, FRAMES);
            let window = build.runs(3.8, 8.2).host_cpu(3.8, 0.2).window();
            match super::super::evaluate(&window) {
                crate::Outcome::Fired(finding) => finding,
                other => panic!("{other:?}"),
            }
        };
        let finding = of(0.97, SUM);
        assert_eq!(
            finding.headline,
            "12 threads want to run on 4 CPUs; a stored function takes 97 % of the CPU: most likely shop.rating, for each row of \
             SELECT SUM(shop.rating(k)) FROM orders WHERE id BETWEEN ? AN..."
        );
        assert_eq!(finding.severity, Severity::Warning);
        assert!(
            finding.remedies[0].statement.starts_with("SHOW CREATE FUNCTION shop.rating;"),
            "{finding:#?}"
        );
        let unnamed = of(0.97, "SELECT SUM(rating(k)) FROM orders");
        assert!(
            unnamed.headline.contains("most likely for each row of SELECT SUM(rating"),
            "{}",
            unnamed.headline
        );
        let alone = of(0.97, "SELECT shop.recalc(7)");
        assert!(
            alone.headline.ends_with("most likely shop.recalc, called by SELECT shop.recalc(?)"),
            "{}",
            alone.headline
        );
        let little = of(0.2, SUM);
        assert!(!little.headline.contains("stored function"), "{}", little.headline);
        assert_eq!(little.severity, Severity::Note);
    }

    #[test]
    fn a_statement_within_the_function_is_not_what_calls_it_and_its_index_dives_stand_behind() {
        const WITHIN: &str = "SELECT price INTO p FROM prices WHERE article = NAME_CONST('a', 7)";
        const DIVES: &[&str] = &["handler::multi_range_read_info_const", "sp_head::execute_function"];
        let of = |outer: &'static str| {
            let sessions = move |second: usize| {
                let text = if second.is_multiple_of(3) { outer } else { WITHIN };
                (20..26).map(|id| session(id, "Query", "executing", text)).collect()
            };
            let build = Build::busy("10.11.18-MariaDB").sessions(sessions).running(1000, 0.9, DIVES);
            build.runs(3.8, 28.2).host_cpu(3.8, 0.2).window()
        };
        let window = of("SELECT SUM(price_of(article)) FROM baskets");
        let crate::Outcome::Fired(saturated) = super::super::evaluate(&window) else { panic!() };
        assert!(
            saturated
                .headline
                .ends_with("most likely for each row of SELECT SUM(price_of(article)) FROM baskets"),
            "{}",
            saturated.headline
        );
        assert_eq!(saturated.explains, ["index-dive-waste"]);
        let findings = crate::diagnose(&window).findings;
        let dives = findings.iter().find(|finding| finding.cause == "index-dive-waste").unwrap();
        assert!(dives.headline.ends_with(", within a stored program"), "{}", dives.headline);
        let crate::Outcome::Fired(unseen) = super::super::evaluate(&of(WITHIN)) else { panic!() };
        assert!(
            unseen.headline.contains("; seen most within a stored program: SELECT price INTO p"),
            "{}",
            unseen.headline
        );
    }

    #[test]
    fn a_function_is_known_by_its_schema_and_a_table_with_columns_is_none() {
        let of = |statement: &str| routine(statement);
        assert_eq!(of("SELECT `shop` . `rating` ( k ) FROM t").as_deref(), Some("shop.rating"));
        assert_eq!(
            of("INSERT INTO shop.orders (a, b) VALUES (shop.rating(?), ?)").as_deref(),
            Some("shop.rating")
        );
        for statement in
            ["SELECT rating(k) FROM t", "INSERT INTO shop.orders (a) VALUES (?)", "SELECT a.f(k), a.g(k)", ""]
        {
            assert_eq!(of(statement), None, "{statement}");
        }
    }
}
