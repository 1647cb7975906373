package main

import (
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"xdsrelay/relay/ops"
)

// topView is a table of the interactive top.
type topView int

// The tables, in the order of their numbers on the screen.
const (
	clientsView topView = iota
	keysView
	nodesView
	reasonsView
	topViews
)

// topQuery selects the clients of a table.
type topQuery struct {
	name, key, node, search string
	// reason and of are the message of a NACK and its type.
	reason, of string
}

// topPlace is what the screen shows, and where in it.
type topPlace struct {
	view     topView
	query    topQuery // of clientsView; with a name, the details of a client
	client   string   // the row of that client
	selected string   // the id of a row
	offset   int      // the first row, or line of details, on the screen
}

// topData is an answer of the tier.
type topData struct {
	*snapshot

	query   topQuery
	clients []ops.Client
	more    bool // there are more clients than these
}

// Messages to the model.
type (
	topAnswer struct {
		data *topData
		err  error
		at   time.Time
	}
	topTick struct{}
)

// topModel is the state of the interactive top. Update and View are pure functions of it.
type topModel struct {
	// Fixed.
	fetch func(last *snapshot, q topQuery) tea.Cmd // answers with a topAnswer
	every time.Duration

	width, height int
	data          *topData
	err           error     // of the last request
	now           time.Time // of the last answer
	fetching      bool
	again         bool // the query has changed since the request

	places   []topPlace // the current one is last
	sorts    [topViews]int
	reversed [topViews]bool
	filter   string
	typing   bool // keys change the filter
}

func newTopModel(every time.Duration, fetch func(last *snapshot, q topQuery) tea.Cmd) topModel {
	return topModel{fetch: fetch, every: every, width: 80, height: 24, places: []topPlace{{}}, fetching: true}
}

// Init implements [tea.Model].
func (m topModel) Init() tea.Cmd { return m.fetch(nil, topQuery{}) }

// place is what the screen shows.
func (m *topModel) place() *topPlace { return &m.places[len(m.places)-1] }

// query selects the clients that the screen shows.
func (m *topModel) query() topQuery {
	q := m.place().query
	if m.place().view == clientsView && q.name == "" {
		q.search = m.filter
	}
	return q
}

// Update implements [tea.Model].
func (m topModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	m.places = slices.Clone(m.places) // the model before stays as it was
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case topAnswer:
		return m.answered(msg)
	case topTick:
		return m.ask()
	case tea.PasteMsg:
		if m.typing {
			return m.setFilter(m.filter + msg.Content)
		}
	case tea.KeyPressMsg:
		if m.typing {
			return m.typed(msg)
		}
		return m.pressed(msg.Keystroke())
	}
	m.settle()
	return m, nil
}

// ask requests the current state, unless a request is open.
func (m topModel) ask() (tea.Model, tea.Cmd) {
	if m.fetching {
		m.again = true
		return m, nil
	}
	m.fetching = true
	var last *snapshot
	if m.data != nil {
		last = m.data.snapshot
	}
	request := m.fetch(last, m.query())
	return m, request
}

func (m topModel) answered(a topAnswer) (tea.Model, tea.Cmd) {
	m.fetching, m.now, m.err = false, a.at, a.err
	if a.err == nil {
		m.data = a.data
	}
	m.settle()
	if m.again {
		m.again = false
		return m.ask()
	}
	return m, tea.Tick(m.every, func(time.Time) tea.Msg { return topTick{} })
}

// maxFilter bounds the filter, in runes.
const maxFilter = 100

func (m topModel) setFilter(text string) (tea.Model, tea.Cmd) {
	r := []rune(printable(text))
	m.filter = string(r[:min(len(r), maxFilter)])
	m.settle()
	return m.ask()
}

// typed changes the filter.
func (m topModel) typed(k tea.KeyPressMsg) (tea.Model, tea.Cmd) {
	switch k.Keystroke() {
	case "ctrl+c":
		return m, tea.Quit
	case "enter":
		m.typing = false
		return m, nil
	case "esc":
		m.typing = false
		return m.setFilter("")
	case "backspace":
		r := []rune(m.filter)
		return m.setFilter(string(r[:max(len(r)-1, 0)]))
	}
	if k.Text == "" {
		return m, nil
	}
	return m.setFilter(m.filter + k.Text)
}

// pressed does what a key means.
func (m topModel) pressed(key string) (tea.Model, tea.Cmd) {
	p := m.place()
	switch key {
	case "q", "ctrl+c":
		return m, tea.Quit
	case "/":
		m.typing = p.query.name == ""
	case "s":
		m.sorts[p.view] = (m.sorts[p.view] + 1) % len(topTables[p.view].sorts)
	case "r":
		m.reversed[p.view] = !m.reversed[p.view]
	case "1", "2", "3", "4":
		return m.show(topPlace{view: topView(key[0] - '1')}, true)
	case "tab":
		return m.show(topPlace{view: (p.view + 1) % topViews}, true)
	case "enter", "right", "l":
		return m.open()
	case "esc", "left", "h", "backspace":
		return m.back()
	default:
		m.move(key)
	}
	m.settle()
	return m, nil
}

// show goes to another place; first means that there is no way back from it.
func (m topModel) show(p topPlace, first bool) (tea.Model, tea.Cmd) {
	if first {
		m.places = nil
	}
	m.places, m.filter = append(m.places, p), ""
	m.settle()
	return m.ask()
}

// back leaves the place, or else clears the filter.
func (m topModel) back() (tea.Model, tea.Cmd) {
	switch {
	case len(m.places) > 1:
		m.places, m.filter = m.places[:len(m.places)-1], ""
	case m.filter != "":
		m.filter = ""
	default:
		return m, nil
	}
	m.settle()
	return m.ask()
}

// open shows what is behind the selected row.
func (m topModel) open() (tea.Model, tea.Cmd) {
	p := m.place()
	rows := m.rows()
	i := slices.IndexFunc(rows, func(r topRow) bool { return r.id == p.selected })
	if i < 0 || p.query.name != "" {
		return m, nil
	}
	return m.show(topPlace{query: rows[i].opens, client: rows[i].id}, false)
}

// move changes the selected row, or scrolls the details.
func (m *topModel) move(key string) {
	p, page := m.place(), m.tableHeight()
	by := map[string]int{"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -page, "pgdown": page, "home": -1 << 30, "g": -1 << 30, "end": 1 << 30, "shift+g": 1 << 30}[key]
	if by == 0 {
		return
	}
	if p.query.name != "" {
		p.offset = min(max(p.offset+by, 0), max(len(m.detail())-page, 0))
		return
	}
	rows := m.rows()
	if len(rows) == 0 {
		return
	}
	i := slices.IndexFunc(rows, func(r topRow) bool { return r.id == p.selected })
	p.selected = rows[min(max(i+by, 0), len(rows)-1)].id
}

// settle selects a row that exists, and scrolls to it.
func (m *topModel) settle() {
	p, page := m.place(), m.tableHeight()
	if p.query.name != "" || m.data == nil {
		return
	}
	rows := m.rows()
	if len(rows) == 0 {
		p.offset = 0
		return
	}
	i := slices.IndexFunc(rows, func(r topRow) bool { return r.id == p.selected })
	if i < 0 {
		i = min(p.offset, len(rows)-1)
		p.selected = rows[i].id
	}
	p.offset = min(max(p.offset, i-page+1), i)
	p.offset = max(min(p.offset, len(rows)-page), 0)
}

// matches reports whether a row matches the filter.
func (m *topModel) matches(cells []string) bool {
	if m.filter == "" {
		return true
	}
	for _, c := range cells {
		if strings.Contains(strings.ToLower(c), strings.ToLower(m.filter)) {
			return true
		}
	}
	return false
}
