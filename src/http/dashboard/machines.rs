//! Page about the machines of a cluster, for owners.

use askama::Template;

use super::layout::Layout;
use super::page_error::PageError;
use super::page_request::PageRequest;
use super::page_response::{HtmlPage, PageResponse};
use crate::domain::formatting::format_size;
use crate::metrics::{ClusterStatus, MemberStatus, NodeRole, NodeStatus};

#[derive(Template)]
#[template(path = "machines.html", config = "src/http/dashboard/askama.toml")]
struct MachinesPage {
    layout: Layout,
    /// `None`: this server belongs to no cluster.
    view: Option<MachinesView>,
}

/// The tables without the page, for the script that updates them.
#[derive(Template)]
#[template(path = "_machines.html", config = "src/http/dashboard/askama.toml")]
struct MachinesFragment {
    view: Option<MachinesView>,
}

/// State of a cluster as text.
struct MachinesView {
    id: String,
    epoch: u64,
    place: u64,
    trimmed: u64,
    log: String,
    copies: usize,
    failovers: u64,
    machines: Vec<MachineRow>,
    members: Vec<MemberRow>,
}

/// Machine of a cluster.
struct MachineRow {
    name: String,
    role: &'static str,
    /// Style of the role.
    style: &'static str,
    place: u64,
    behind: String,
    synced: u64,
    clock: String,
    release: String,
    address: String,
}

/// Member of etcd.
struct MemberRow {
    address: String,
    release: String,
    used: String,
    quota: String,
    problems: Vec<String>,
}

pub(super) fn show(request: &PageRequest) -> Result<PageResponse, PageError> {
    let cluster = request.handle().metrics().cluster();
    let view = cluster.map(|cluster| MachinesView::from_status(&cluster.status()));
    if &*request.fragment == "machines" {
        return Ok(HtmlPage::from_template(&MachinesFragment { view }).into());
    }
    let layout = request.layout("Machines");
    Ok(HtmlPage::from_template(&MachinesPage { layout, view }).into())
}

impl MachinesView {
    fn from_status(status: &ClusterStatus) -> Self {
        Self {
            id: status.id.clone(),
            epoch: status.epoch,
            place: status.place,
            trimmed: status.trimmed,
            log: format_size(status.log_bytes),
            copies: status.copies,
            failovers: status.failovers,
            machines: status.nodes.iter().map(machine_row).collect(),
            members: status.members.iter().map(member_row).collect(),
        }
    }
}

fn machine_row(node: &NodeStatus) -> MachineRow {
    let leads = node.role == NodeRole::Leader;
    let unless_leader = |text: String| if leads { "–".into() } else { text };
    MachineRow {
        name: node.name.clone(),
        role: node.role.name(),
        style: match node.role {
            NodeRole::Leader | NodeRole::Follower => "up",
            NodeRole::Joining => "late",
            NodeRole::Absent => "down",
        },
        place: node.place,
        behind: unless_leader(format!("{:.1} s", node.behind_secs)),
        synced: node.synced,
        clock: unless_leader(format!("{:+.1} s", node.clock_ahead_secs)),
        release: node.release.clone(),
        address: node.address.clone(),
    }
}

fn member_row(member: &MemberStatus) -> MemberRow {
    MemberRow {
        address: member.address.clone(),
        release: member.release.clone(),
        used: format_size(member.bytes),
        quota: format_size(member.quota_bytes),
        problems: member.problems.clone(),
    }
}
