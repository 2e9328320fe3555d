//! The short form of `lab matrix` on the servers that most people run, and on servers that are not as their packages make them: the
//! whole of it is `make matrix`.

use spindoctor_lab::matrix::{MatrixOptions, Place, place, row};
use spindoctor_lab::{Home, Which};

use crate::program::spindoctor;

fn is_right(name: &str, place: Option<&'static Place>) {
    let command = spindoctor("");
    let program = std::path::Path::new(command.get_program());
    let options = MatrixOptions { program, is_short: true, commands: &[], place };
    let home = Home::open().expect("the lab has a folder");
    let which = Which::by_name(name).expect("the lab knows it");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let row = runtime.block_on(row(&home, &which, name, &options, &|_| {})).expect("a row of the matrix");
    let wrong: Vec<_> = row.wrong().collect();
    assert!(wrong.is_empty(), "{name}: {wrong:#?}");
    assert!(!row.cells.is_empty());
}

macro_rules! servers {
    ($($test:ident: $name:literal;)*) => {
        $(
            #[test]
            fn $test() {
                is_right($name, None);
            }
        )*
    };
}

servers! {
    mysql_5_7: "mysql-5.7";
    mysql_8_0_31: "mysql-8.0.31";
    mysql_9_7: "mysql-9.7";
    mariadb_10_5: "mariadb-10.5";
    mariadb_10_11: "mariadb-10.11";
    mariadb_11_8: "mariadb-11.8";
}

macro_rules! places {
    ($($test:ident: $name:literal;)*) => {
        $(
            #[test]
            fn $test() {
                let place = place($name).expect("a place of this name");
                for server in place.servers {
                    is_right(server, Some(place));
                }
            }
        )*

        #[test]
        fn every_place_has_a_test() {
            let tested = [$($name),*];
            let all: Vec<&str> = spindoctor_lab::matrix::PLACES.iter().map(|place| place.name).collect();
            assert_eq!(tested.as_slice(), all);
        }
    };
}

places! {
    session_defaults: "session-defaults";
    no_autocommit: "no-autocommit";
    little_room: "little-room";
    read_only: "read-only";
    no_performance_schema: "no-performance-schema";
    performance_schema: "performance-schema";
    thread_pool: "thread-pool";
    compressed: "compressed";
    four_part_version: "four-part-version";
    future_version: "future-version";
}
