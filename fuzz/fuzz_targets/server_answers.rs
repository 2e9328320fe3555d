//! Every answer of a server through the code that reads it: packets, the bounds of an answer, rows, each source's parser, and
//! the sample as JSON and back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use spindoctor_collect::mysql::answer::Reading;
use spindoctor_collect::mysql::{Plan, SOURCES};
use spindoctor_collect::source::Answer as At;
use spindoctor_model::mysql::NamedValues;
use spindoctor_model::{ServerSample, ServerVersion};
use spindoctor_wire::answer::{Answer, Item};
use spindoctor_wire::bytes::put_text;
use spindoctor_wire::packets::Packets;

/// Columns and cells that make a well-formed answer of any content, then any bytes.
type Input = (u8, u8, String, Vec<String>, Vec<Vec<Option<Vec<u8>>>>, Vec<u8>);

fn described(name: &str) -> Vec<u8> {
    let mut packet = Vec::new();
    for text in ["def", "", "", "", name, ""] {
        put_text(&mut packet, text.as_bytes());
    }
    packet.extend_from_slice(b"\x0c\x21\0\0\0\0\0\xfd\0\0\0\0\0");
    packet
}

fuzz_target!(|input: Input| {
    let (number, step, version, columns, cells, any) = input;
    let source = &SOURCES[usize::from(number) % SOURCES.len()];
    let (mut theirs, mut stream) = (Packets::new(), Vec::new());
    if let Ok(count @ 1..=250) = u8::try_from(columns.len()) {
        theirs.frame(&[count], &mut stream);
        columns.iter().for_each(|name| theirs.frame(&described(name), &mut stream));
        theirs.frame(b"\xfe\0\0\x02\0", &mut stream);
        for row in &cells {
            let mut packet = Vec::new();
            for at in 0..columns.len() {
                match row.get(at) {
                    Some(Some(text)) => put_text(&mut packet, text),
                    _ => packet.push(0xfb),
                }
            }
            theirs.frame(&packet, &mut stream);
        }
    }
    stream.extend_from_slice(&any);
    let (mut packets, mut answer, mut reading) = (Packets::new(), Answer::new(), Reading::default());
    for piece in stream.chunks_mut(usize::from(step).max(1) * 7) {
        if answer.bytes(&mut packets, piece, 1 << 20, &mut |item: Item<'_>| reading.item(item)).is_err() {
            break;
        }
    }
    let rows = reading.into_rows();
    let mut sample = ServerSample::default();
    (source.parse)(&rows, At::default(), &mut sample);
    let text = serde_json::to_string(&sample).expect("a sample is JSON");
    serde_json::from_str::<ServerSample>(&text).expect("and back");
    // What is asked next follows from what was answered.
    if let Some(version) = ServerVersion::parse(&version, "") {
        for source in SOURCES {
            if let Plan::AskAbout(statement) = (source.plan)(version, Some(&NamedValues::default())) {
                let _ = statement(&sample);
            }
        }
    }
});
