//! A server that may say anything, to the fleet's client: a greeting, a login, an answer, cut anywhere.
#![no_main]

use libfuzzer_sys::fuzz_target;
use spindoctor_fleet::wire::answer::{Answer, Item};
use spindoctor_fleet::wire::login::{Account, Login};
use spindoctor_fleet::wire::packets::Packets;
use spindoctor_fleet::wire::rows::Rows;
use spindoctor_fleet::wire::{Wrong, greeting};

fuzz_target!(|input: (u8, Vec<Vec<u8>>, Vec<u8>)| {
    let (step, payloads, stream) = input;
    // As packets that are whole, whatever is in them.
    let (mut login, mut answer, mut rows) = (None, Answer::new(), Rows::default());
    for payload in &payloads {
        if let Ok(Ok(greeting)) = greeting::parse(payload) {
            let account = Account { user: "app", password: "secret", database: Some("d"), cleartext: true };
            let mut begun = Login::new(greeting, account, step & 1 == 1);
            begun.response();
            login = Some(begun);
        }
        if let Some(login) = &mut login {
            let _ = login.packet(payload);
        }
        if let Ok(Item::Row(row)) = answer.packet(payload) {
            rows.push_packet(row);
        }
    }
    for row in rows.iter() {
        assert!(row.cells().count() > 0);
    }
    // As a stream that comes in steps.
    let (mut packets, mut answer, mut rows) = (Packets::new(), Answer::new(), Rows::default());
    for piece in stream.chunks(usize::from(step).max(1)) {
        let mut take = |item: Item<'_>| match item {
            Item::Row(row) => rows.push_packet(row),
            Item::Rows(bytes, count) => rows.push_run(bytes, count),
            _ => {}
        };
        let fed = answer.bytes(&mut packets, &mut piece.to_vec(), 1 << 20, &mut take);
        if fed.is_err() {
            let _: Wrong = fed.unwrap_err();
            break;
        }
    }
    assert_eq!(rows.iter().count(), rows.len());
});
