//! A server that may say anything, to every command's client: a greeting, a login, an answer, cut anywhere.
#![no_main]

use libfuzzer_sys::fuzz_target;
use spindoctor_wire::answer::{Answer, Item};
use spindoctor_wire::login::{Account, Allowed, Login, Step};
use spindoctor_wire::packets::Packets;
use spindoctor_wire::peer::Channel;
use spindoctor_wire::rows::Rows;
use spindoctor_wire::{Wrong, greeting};

const PASSWORD: &str = "hunter2hunter2";

fuzz_target!(|input: (u8, Vec<Vec<u8>>, Vec<u8>)| {
    let (step, payloads, stream) = input;
    let channel = [Channel::Plain, Channel::Unverified, Channel::Verified, Channel::OpenSocket][usize::from(step & 3)];
    // As packets that are whole, whatever is in them.
    let (mut login, mut answer, mut rows) = (None, Answer::new(), Rows::default());
    for payload in &payloads {
        if let Ok(Ok(greeting)) = greeting::parse(payload) {
            let account = Account { user: "app", password: PASSWORD, database: Some("d"), cleartext: true };
            let allowed = Allowed { any_key: step & 4 == 4, ..Allowed::default() };
            let mut begun = Login::new(greeting, account, allowed, channel);
            begun.response();
            login = Some(begun);
        }
        if let Some(login) = &mut login
            && let Ok(Step::Send(sent)) = login.packet(payload)
        {
            let is_there = sent.bytes().windows(PASSWORD.len()).any(|part| part == PASSWORD.as_bytes());
            assert!(!is_there || channel == Channel::Verified, "the password went to nobody in particular");
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
