//! Whatever happens, settings are given back; and a protocol with a bug in it is found out.

use spindoctor_giving_back::cases::{PLANTED, SHORT};
use spindoctor_giving_back::check::{Extent, check, describe};
use spindoctor_giving_back::protocol::Protocol;
use spindoctor_giving_back::steps::GivingBack;

#[test]
fn whatever_happens_every_variable_ends_with_its_old_value_or_the_dbas_in_time() {
    for (name, scope) in SHORT {
        let model = GivingBack { protocol: Protocol::PROGRAM, scope: *scope };
        let checked = check(model, Extent::Whole);
        println!(
            "{name}: {} states, {} different, longest way {} steps, {:.1} s",
            checked.states,
            checked.unique,
            checked.depth,
            checked.took.as_secs_f64()
        );
        for (property, way) in &checked.broken {
            println!("{property}:\n  {}", describe(&model, way).join("\n  "));
        }
        assert!(checked.broken.is_empty(), "{name}: the way is above");
    }
}

#[test]
fn each_planted_bug_is_found() {
    let mut missed = Vec::new();
    for planted in PLANTED {
        let mut protocol = Protocol::PROGRAM;
        (planted.plant)(&mut protocol);
        let checked = check(GivingBack { protocol, scope: planted.scope }, Extent::UntilBroken);
        match checked.broken.first() {
            Some((property, way)) => println!(
                "{}: {property} does not hold after {} steps; {} different states, {:.1} s",
                planted.what,
                way.len(),
                checked.unique,
                checked.took.as_secs_f64()
            ),
            None => missed.push(planted.what),
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}
