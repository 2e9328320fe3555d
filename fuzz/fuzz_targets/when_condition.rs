//! Conditions of `--when`, and what they make of numbers and statements: any text is a condition or a refusal.
//!
//! The first line is the condition, each other one a number, or a statement that runs.

#![no_main]

use libfuzzer_sys::fuzz_target;
use spindoctor_model::mysql::ServerThread;
use spindoctor_stalls::condition::Tracked;
use spindoctor_stalls::when::When;

fuzz_target!(|text: &str| {
    let mut lines = text.lines();
    match lines.next().unwrap_or_default().parse::<When>() {
        Ok(When::Number(condition)) => {
            assert!(!condition.name().is_empty());
            condition.cannot_hold();
            let mut tracked = Tracked::new(condition);
            for (at, value) in lines.enumerate() {
                tracked.check(at as f64, value.parse().unwrap_or(f64::NAN));
            }
        }
        Ok(When::Statement(condition)) => {
            for line in lines {
                let thread = ServerThread {
                    is_connection: true,
                    command: "Query".into(),
                    time_s: 60.0,
                    statement: Some(line.to_owned()),
                    ..ServerThread::default()
                };
                condition.holds(&thread);
            }
            let again = condition.to_string().parse::<When>();
            assert!(again.is_ok(), "{condition}");
        }
        Err(why) => assert!(!why.is_empty()),
    }
});
