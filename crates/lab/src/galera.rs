//! Two nodes of a Galera cluster on one machine.
//!
//! A node that joins must have the data of the cluster: both begin as copies of one template that was a cluster of one before,
//! so that its position in the history is stored in it, and the second is sent the few events since (IST). The script by which
//! Galera would send whole data hands over the position alone.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::command::Progress;
use crate::error::{Error, Result};
use crate::home::Home;
use crate::install;
use crate::load::Tables;
use crate::server::{Server, ServerSpec, free_port};

/// A server's place in a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GaleraNode {
    /// It makes the cluster.
    First,
    /// It joins the one whose first node listens on this port of the loopback.
    Joins(u16),
}

/// The method's name, and that of its script: `wsrep_sst_lab`.
const METHOD: &str = "lab";

/// What Galera runs on both nodes where one joins. The joiner says where it listens, and the donor is given those words; here
/// they end with the path of a file. In the end both say the position.
const SCRIPT: &str = r#"#!/bin/sh
while [ $# -gt 0 ]; do
  case $1 in
    --role) role=$2 ;;
    --gtid) position=$2 ;;
    --address) address=$2 ;;
    --datadir) data=$2 ;;
  esac
  shift
done
case $role in
  donor)
    file=${address#*:1}
    echo "$position" > "$file.part" && mv "$file.part" "$file"
    echo "done $position"
    ;;
  joiner)
    file=${data%/}.position
    rm -f "$file"
    echo "ready 127.0.0.1:1$file"
    while [ ! -s "$file" ]; do sleep 0.05; done
    cat "$file"
    rm -f "$file"
    ;;
esac
"#;

/// The second node must be like the first within this time.
const JOINED_WITHIN: Duration = Duration::from_secs(30);

/// The options of a node.
pub(crate) fn options(home: &Home, node: GaleraNode, progress: Progress<'_>) -> Result<Vec<String>> {
    let library = install::galera(home, progress)?;
    let first = match node {
        GaleraNode::First => String::new(),
        GaleraNode::Joins(port) => format!("127.0.0.1:{port}"),
    };
    let (listens, receives) = (free_port()?, free_port()?);
    Ok(vec![
        "--wsrep-on=ON".into(),
        format!("--wsrep-provider={}", library.display()),
        format!("--wsrep-cluster-address=gcomm://{first}"),
        format!(
            "--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:{listens};ist.recv_addr=127.0.0.1:{receives};\
             base_host=127.0.0.1;gcache.size=16M"
        ),
        "--wsrep-node-address=127.0.0.1".into(),
        format!("--wsrep-sst-method={METHOD}"),
        "--binlog-format=ROW".into(),
        "--innodb-autoinc-lock-mode=2".into(),
    ])
}

/// The folder of the script that Galera looks for on PATH; made first where it is not there yet.
pub(crate) fn programs(home: &Home) -> Result<PathBuf> {
    let folder = home.root().join("galera-programs");
    let script = folder.join(format!("wsrep_sst_{METHOD}"));
    if std::fs::read_to_string(&script).is_ok_and(|text| text == SCRIPT) {
        return Ok(folder);
    }
    std::fs::create_dir_all(&folder).map_err(Error::file("create", &folder))?;
    // Another lab that runs it meanwhile must not see half of it.
    let part = folder.join(format!("part-{}", std::process::id()));
    std::fs::write(&part, SCRIPT).map_err(Error::file("write", &part))?;
    std::fs::set_permissions(&part, std::fs::Permissions::from_mode(0o755))
        .map_err(Error::file("make a program of", &part))?;
    std::fs::rename(&part, &script).map_err(Error::file("move the script to", &script))?;
    Ok(folder)
}

/// Files of a node that was shut down which only that node may have.
pub(crate) fn forget_the_node(data: &Path) -> Result<()> {
    for name in ["galera.cache", "gvwstate.dat"] {
        match std::fs::remove_file(data.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::file("remove", &data.join(name))(error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// A second node with the same rows as the first one, which has joined and takes part.
pub(crate) async fn second(first: &Server, tables: Tables) -> Result<Server> {
    let question = "SELECT @@wsrep_provider_options";
    let said = first.ask(question).await?.unwrap_or_default();
    let port = listening_port(&said).ok_or_else(|| Error::Unable {
        what: "a second node",
        because: format!("the first one says of its port: {said}"),
    })?;
    let spec = ServerSpec {
        which: first.which().clone(),
        tables: Some(tables),
        options: vec!["--server-id=2".into()],
        galera: Some(GaleraNode::Joins(port)),
        ..ServerSpec::default()
    };
    let second = Server::start(&Home::open()?, &spec, &|_| {}).await?;
    let begun = Instant::now();
    loop {
        let state = "SELECT variable_value FROM information_schema.global_status \
                     WHERE variable_name = 'wsrep_local_state_comment'";
        let state = second.ask(state).await.ok().flatten().unwrap_or_default();
        if state == "Synced" {
            return Ok(second);
        }
        if begun.elapsed() > JOINED_WITHIN {
            return Err(Error::Unable {
                what: "a second node",
                because: format!("its state is {state} after {} s", JOINED_WITHIN.as_secs()),
            });
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The port in `...; gmcast.listen_addr = tcp://127.0.0.1:4567; ...`.
fn listening_port(options: &str) -> Option<u16> {
    let listens = options.split(';').find_map(|one| one.trim().strip_prefix("gmcast.listen_addr = "))?;
    listens.rsplit_once(':')?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_of_a_node_is_found_in_its_options() {
        let options = "gmcast.group = ; gmcast.listen_addr = tcp://127.0.0.1:15311; gmcast.mcast_addr = ; ";
        assert_eq!(listening_port(options), Some(15_311));
        assert_eq!(listening_port("gmcast.listen_addr = tcp://"), None);
    }
}
