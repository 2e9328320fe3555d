//! The short form of `lab matrix` on the servers that most people run, and on servers that are not as their packages make them: the
//! whole of it is `make matrix`.

use spindoctor_lab::matrix::{MatrixOptions, PLACES, Place, place, row};
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
        /// What most people run, and what CI installs.
        const SERVERS: &[&str] = &[$($name),*];

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
    (tests { $($test:ident: $name:literal;)* } make_matrix { $($longer:literal;)* }) => {
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
        fn every_place_has_a_test_or_is_left_to_make_matrix() {
            let named = |is_in_tests: bool| {
                let places = PLACES.iter().filter(move |place| place.is_in_tests == is_in_tests);
                places.map(|place| place.name).collect::<Vec<_>>()
            };
            assert_eq!(named(true), [$($name),*]);
            assert_eq!(named(false), [$($longer),*]);
            let all = PLACES.iter().filter(|place| place.is_in_tests).flat_map(|place| place.servers);
            for server in all {
                assert!(SERVERS.contains(server), "{server}: tests install no other servers than these");
            }
        }
    };
}

places! {
    tests {
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
        name_resolve: "name-resolve";
        galera: "galera";
        group_replication: "group-replication";
        semi_sync: "semi-sync";
        encrypted: "encrypted";
        metadata_lock_info: "metadata-lock-info";
    }
    make_matrix {
        "encrypted-by-keyring";
        "many-tables";
    }
}
