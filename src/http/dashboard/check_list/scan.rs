//! One pass over the checks of a list, for the rows and the numbers above them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::query::{CheckListFilter, CheckListItem, CheckListQuery, DisplayStatus};
use crate::domain::ids::ProjectId;
use crate::http::dashboard::page_request::PageRequest;
use crate::operations::channel::AlertingChannels;

/// Maximum number of tags in the menu. Others are found by searching.
const MAX_TAGS_IN_MENU: usize = 200;

/// Result of one pass over all checks of the page.
#[derive(Default)]
pub(super) struct ListScan {
    pub(super) all: usize,
    pub(super) unnotified: usize,
    counts: BTreeMap<DisplayStatus, usize>,
    pub(super) tags: BTreeMap<String, DisplayStatus>,
    pub(super) items: Vec<CheckListItem>,
}

/// Channels of a project that send alerts to a recipient.
pub(super) fn alerting_channels(request: &PageRequest, project: ProjectId) -> AlertingChannels {
    let transports = request.handle().transports();
    request
        .handle()
        .with_state(|state| AlertingChannels::compute(state, project, transports))
}

/// Visits every check once and collects a few values of each check in the list.
pub(super) fn scan_checks(request: &PageRequest, query: &CheckListQuery) -> ListScan {
    let mut scan = ListScan::default();
    let filter = CheckListFilter::new(query);
    let pinned = request.pinned_checks();
    for project in request.shown_projects() {
        let alerting = alerting_channels(request, project.id);
        request.handle().for_each_check(project.id, |check| {
            let settings = &check.settings;
            let state = &check.state;
            let status = state.visible_status(settings, request.now);
            let shown = DisplayStatus::from_status(status, state.run.is_some());
            let is_unnotified = !alerting.reach_recipient_of(settings);
            scan.all += 1;
            scan.unnotified += usize::from(is_unnotified);
            *scan.counts.entry(shown).or_default() += 1;
            for tag in settings.tags.iter() {
                if let Some(worst) = scan.tags.get_mut(tag) {
                    *worst = shown.min(*worst);
                } else if scan.tags.len() < MAX_TAGS_IN_MENU {
                    scan.tags.insert(tag.to_owned(), shown);
                }
            }
            if filter.matches(&check, status, is_unnotified) {
                let last = state.last_ping;
                let next = state.next_ping();
                scan.items.push(CheckListItem {
                    id: check.id,
                    project: Arc::clone(&project),
                    settings: check.settings,
                    status: shown,
                    last,
                    next,
                    is_pinned: pinned.contains(&check.uuid),
                });
            }
        });
    }
    scan
}

impl ListScan {
    pub(super) fn status_count(&self, shown: DisplayStatus) -> usize {
        self.counts.get(&shown).copied().unwrap_or_default()
    }
}
