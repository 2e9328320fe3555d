//! The rules' proposals against the list of variables: the list lets a trial set every value that is proposed for a
//! recorded server, and put back every value that the server had.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use spindoctor_model::Window;
use spindoctor_rules::proposals::proposals;
use spindoctor_tune::{undo, variables};

#[derive(Deserialize)]
struct Stored {
    window: Window,
}

#[test]
fn every_proposal_for_a_recorded_server_can_be_tried_and_put_back() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../rules/tests/windows");
    let mut tried = 0;
    for file in fs::read_dir(folder).unwrap() {
        let file = fs::File::open(file.unwrap().path()).unwrap();
        let stored: Stored =
            serde_json::from_reader(std::io::BufReader::new(flate2::read::GzDecoder::new(file))).unwrap();
        let window = stored.window;
        for proposal in proposals(&window).iter().filter(|proposal| proposal.not_tried.is_none()) {
            let version = window.server.version.unwrap();
            for change in &proposal.changes {
                if undo::is_named(&change.variable) {
                    undo::count(&change.to).unwrap();
                    continue;
                }
                let variable = variables::find(&change.variable).unwrap();
                for value in [&change.from, &change.to] {
                    assert_eq!(
                        variable.value(version, value).as_ref(),
                        Ok(value),
                        "{version}: {proposal:#?}"
                    );
                }
                tried += 1;
            }
        }
    }
    assert!(tried >= 10, "the recorded servers suffer what settings cure: {tried} changes are not all of it");
}
