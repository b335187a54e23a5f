use super::*;
use crate::domain::project::Project;
use crate::engine::state::Change;

/// State with projects of these numbers.
fn state(projects: &[u64]) -> State {
    let mut state = State::default();
    for id in projects {
        let name = crate::domain::project::ProjectName::parse(&format!("project {id}")).unwrap();
        let uuid = uuid::Uuid::from_u128(u128::from(*id));
        let badge_key = format!("b{id}").into();
        let project = Project {
            id: ProjectId(*id),
            uuid,
            name,
            check_limit: None,
            ping_log_limit: 1,
            allows_ping_settings: false,
            badge_key,
            legacy_badge: None,
            import: None,
            status_pages: Vec::new(),
        };
        state.apply(&Change::Project(std::sync::Arc::new(project)));
    }
    state
}

/// Index of deliveries numbered from 1, of these projects.
fn index(projects: &[u64]) -> DeliveryIndex {
    let mut index = DeliveryIndex::default();
    for (number, project) in (1..).zip(projects) {
        index
            .projects
            .entry(ProjectId(*project))
            .or_default()
            .insert(DeliveryNumber(number));
        index.len += 1;
    }
    index
}

fn take(index: &mut DeliveryIndex, count: usize, state: &State) -> Vec<u64> {
    index
        .take_oldest(count, state)
        .into_iter()
        .map(|number| number.0)
        .collect()
}

#[test]
fn the_project_with_the_most_deliveries_loses_its_oldest() {
    let state = state(&[1, 2]);
    // One project floods the log between two entries of another.
    let mut index = index(&[1, 2, 1, 1, 1, 1, 1, 2, 1]);
    assert_eq!(take(&mut index, 2, &state), [1, 3]);
    assert_eq!(take(&mut index, 3, &state), [4, 5, 6]);
    index.remove(DeliveryNumber(2));
    index.remove(DeliveryNumber(99));
    assert_eq!(
        (index.len, take(&mut index, 10, &state)),
        (3, vec![7, 8, 9])
    );
    assert_eq!((index.len, index.projects.len()), (0, 0));
}

#[test]
fn deleted_projects_have_one_share_together() {
    let state = state(&[1]);
    let mut index = index(&[1, 1, 1, 2, 3, 4, 5]);
    assert_eq!(
        take(&mut index, 2, &state),
        [4, 1],
        "four of the deleted count as one project's"
    );
}
