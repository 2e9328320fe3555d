//! What a user gives the fleet: lists of servers, conditions, statements, waves.
#![no_main]

use libfuzzer_sys::fuzz_target;
use spindoctor_fleet::select::Condition;
use spindoctor_fleet::statement::Statement;
use spindoctor_fleet::waves::Plan;
use spindoctor_fleet::list;

fuzz_target!(|text: &str| {
    if let (Ok(listed), Ok(condition)) = (list::parse(text), text.parse::<Condition>()) {
        for server in &listed {
            condition.holds(text, &server.tags);
        }
    }
    if let Ok(reading) = Statement::reading(text) {
        // What passes for reading begins with a word that reads, wherever the comments end.
        assert!(!reading.sql().is_empty());
    }
    Statement::writing(text).without_secrets();
    if let Ok(plan) = text.parse::<Plan>() {
        let servers: Vec<usize> = (0..50).collect();
        let asked: usize = plan.waves(&servers).iter().map(|wave| wave.len()).sum();
        assert_eq!(asked, 50);
    }
});
