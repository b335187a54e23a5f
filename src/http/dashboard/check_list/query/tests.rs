use proptest::prelude::*;

use super::*;
use crate::domain::ids::ProjectId;
use crate::domain::project::ProjectName;
use crate::domain::text::{Name, Tags};

fn parse_query(query: &str) -> CheckListQuery {
    let pairs: Vec<_> = crate::http::common::request::form_pairs(query)
        .map(|(name, value)| (name.unwrap(), value.unwrap()))
        .collect();
    CheckListQuery::parse(&pairs, ListPreferences::default())
}

fn check(number: u64, name: &str, tags: &str) -> Check {
    let settings = CheckSettings {
        name: Name::parse(name).unwrap(),
        tags: Tags::parse(tags).unwrap(),
        ..CheckSettings::default()
    };
    let state = crate::domain::check::CheckState::new(Timestamp::from_secs(0));
    let uuid = Uuid::from_u128(u128::from(number));
    Check {
        id: CheckId(number),
        uuid,
        badge: uuid,
        project: crate::domain::ids::ProjectId(1),
        settings: Arc::new(settings),
        state,
        alerted_labels: None,
    }
}

#[test]
fn filters_are_combined() {
    let nas = check(1, "Nightly Backup", "nas prod");
    for (query, fits) in [
        ("", true),
        ("tag=nas", true),
        ("tag=nas&tag=prod", true),
        ("tag=nas&tag=eu", false),
        ("tag=NAS", false),
        ("q=night+BACK", true),
        ("q=night+prod", true),
        ("q=night+cert", false),
        ("q=00000000-0000-0000-0000-000000000001", true),
        ("q=00000000-0000-0000-0000-000000000002", false),
        ("status=new", true),
        ("status=down", false),
        ("status=down&status=new", true),
        ("status=any", true),
        ("alerts=none", true),
    ] {
        let wanted = parse_query(query);
        assert_eq!(
            CheckListFilter::new(&wanted).matches(&nas, VisibleStatus::New, true),
            fits,
            "{query}"
        );
    }
    assert!(!CheckListFilter::new(&parse_query("alerts=none")).matches(
        &nas,
        VisibleStatus::New,
        false
    ));
}

#[test]
fn a_running_check_is_shown_as_running_unless_it_is_down_or_late() {
    for (status, shown) in [
        (VisibleStatus::Up, DisplayStatus::Running),
        (VisibleStatus::New, DisplayStatus::Running),
        (VisibleStatus::Down, DisplayStatus::Down),
        (VisibleStatus::Grace, DisplayStatus::Late),
    ] {
        assert_eq!(DisplayStatus::from_status(status, true), shown);
    }
}

#[test]
fn names_are_in_natural_order() {
    let names = [
        "",
        "9",
        "10",
        "a",
        "A2",
        "a02",
        "a10",
        "Ä",
        "backup 9",
        "Backup 10",
        "backup 10 b",
        "z",
        "ß1",
    ];
    let mut sorted = names;
    sorted.sort_by(|one, other| compare_natural(one, other));
    assert_eq!(
        sorted,
        [
            "",
            "9",
            "10",
            "a",
            "A2",
            "a02",
            "a10",
            "backup 9",
            "Backup 10",
            "backup 10 b",
            "z",
            "ß1",
            "Ä"
        ]
    );
}

fn project(name: &str) -> Arc<Project> {
    Arc::new(Project {
        id: ProjectId(1),
        uuid: Uuid::nil(),
        name: ProjectName::parse(name).unwrap(),
        check_limit: None,
        ping_log_limit: 100,
        allows_ping_settings: false,
        badge_key: "badge".into(),
        legacy_badge: None,
        import: None,
        status_pages: Vec::new(),
    })
}

fn any_query() -> impl Strategy<Value = CheckListQuery> {
    let statuses = proptest::collection::btree_set(
        proptest::sample::select(DisplayStatus::ALL.to_vec()),
        0..4,
    );
    let tags = proptest::collection::btree_set("[a-z&=+ %ä]{1,5}", 0..4);
    (
        statuses,
        tags,
        "[a-zA-Z&=+%äß]{0,9}",
        any::<bool>(),
        proptest::option::of(proptest::sample::select(Grouping::ALL.to_vec())),
        0..5_usize,
        any::<bool>(),
        0..3_usize,
        1..9_usize,
    )
        .prop_map(
            |(statuses, tags, search, only_unnotified, grouping, by, is_reversed, size, page)| {
                CheckListQuery {
                    statuses,
                    tags: tags.into_iter().collect(),
                    search,
                    only_unnotified,
                    grouping,
                    order: SortOrder {
                        key: SortKey::ALL[by],
                        is_reversed,
                    },
                    page_size: ListPreferences::PAGE_SIZES[size],
                    defaults: ListPreferences::default(),
                    page,
                }
            },
        )
}

#[test]
fn a_missing_parameter_is_taken_from_the_account() {
    let usual = ListPreferences {
        order: SortOrder {
            key: SortKey::Name,
            is_reversed: true,
        },
        page_size: 1000,
    };
    let read = |pairs: &[(&str, &str)]| {
        let pairs: Vec<_> = pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        CheckListQuery::parse(&pairs, usual)
    };
    let plain = read(&[]);
    assert_eq!(
        (
            plain.order,
            plain.page_size,
            plain.to_query_string().as_str()
        ),
        (usual.order, 1000, "")
    );
    assert_eq!(plain.to_full_query_string(), "?sort=-name&rows=1000");
    let other = read(&[("sort", "status"), ("rows", "100")]);
    assert_eq!(
        (
            other.order,
            other.page_size,
            other.to_query_string().as_str()
        ),
        (SortOrder::default(), 100, "?sort=status&rows=100")
    );
}

proptest! {
    #[test]
    fn a_written_query_is_parsed_as_the_same_query(wanted in any_query()) {
        let written = wanted.to_query_string();
        let parsed = super::tests::parse_query(written.trim_start_matches('?'));
        prop_assert_eq!(&parsed, &wanted);
    }

    #[test]
    fn pages_are_the_parts_of_the_whole_list(
        names in proptest::collection::vec("[ab0-9]{0,3}", 0..60),
        by in 0..5_usize,
        is_reversed: bool,
        grouping in proptest::option::of(proptest::sample::select(Grouping::ALL.to_vec())),
    ) {
        let times = |n: usize| {
            (!n.is_multiple_of(3)).then(|| Timestamp::from_secs((n * 7 % 11) as i64))
        };
        let items: Vec<_> = names.iter().enumerate().map(|(n, name)| CheckListItem {
            id: CheckId(n as u64),
            project: project(["Home", "office"][n % 2]),
            settings: check(1, name, ["", "nas", "web a"][n % 3]).settings,
            status: DisplayStatus::ALL[n % 6],
            last: times(n),
            next: times(n + 1),
            is_pinned: n % 5 == 3,
        }).collect();
        let wanted = CheckListQuery {
            order: SortOrder { key: SortKey::ALL[by], is_reversed },
            grouping,
            page_size: 7,
            ..CheckListQuery::parse(&[], ListPreferences::default())
        };
        let page = |page| sort_page(items.clone(), &CheckListQuery { page, ..wanted.clone() });
        let paged: Vec<_> = (1..=10).flat_map(page).collect();
        let all = sort_page(items.clone(), &CheckListQuery { page_size: 1000, ..wanted });
        prop_assert_eq!(paged.len(), items.len());
        let ids = |items: &[CheckListItem]| items.iter().map(|item| item.id).collect::<Vec<_>>();
        prop_assert_eq!(ids(&paged), ids(&all));
        if let Some(grouping) = grouping {
            // Each group is in one place.
            let mut headings: Vec<_> = all.iter().map(|item| grouping.heading(item)).collect();
            headings.dedup();
            let number = headings.len();
            headings.sort_unstable();
            headings.dedup();
            prop_assert_eq!(headings.len(), number);
        }
    }
}
