//! Ways that are played on real servers.

use spindoctor_giving_back::cases::CALM;
use spindoctor_giving_back::protocol::Protocol;
use spindoctor_giving_back::steps::{GivingBack, Scope};
use spindoctor_giving_back::ways::{chosen, coverage};

#[test]
fn a_hundred_ways_cover_more_than_ten_do_and_each_can_be_gone() {
    let scope = Scope { faults: 2, dba: 1, recoveries: 1, sets: 3, stranger: true, ..CALM };
    let model = GivingBack { protocol: Protocol::PROGRAM, scope };
    let few = chosen(&model, 1, 10);
    let many = chosen(&model, 1, 100);
    let (few, many_covered) = (coverage(&model, &few), coverage(&model, &many));
    println!("kinds of steps and pairs of them: 10 ways {few:?}, 100 ways {many_covered:?}");
    assert!(many_covered.1 > few.1);
    for way in many {
        let mut state = model.begin();
        for step in way {
            state = model.after(&state, step).unwrap();
            assert!(state.wrong.is_none());
        }
    }
}
