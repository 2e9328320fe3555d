//! The short form of `lab matrix` on the servers that most people run: the whole of it is `make matrix`.

use spindoctor_lab::matrix::{MatrixOptions, row};
use spindoctor_lab::{Home, Which};

use crate::program::spindoctor;

fn is_right(name: &str) {
    let command = spindoctor("");
    let options =
        MatrixOptions { program: std::path::Path::new(command.get_program()), is_short: true, commands: &[] };
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
                is_right($name);
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
