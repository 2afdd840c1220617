// Script of the page. Search and reading work without it; it adds shortcuts, uploads by drop with progress, and a queue that refreshes itself.
document.documentElement.classList.add('scripted')

const search = document.querySelector('#q')
const parallelUploads = 2
/** Each refresh is three calls of the API. */
const refreshMs = 10_000

/** `/` goes to the search field, arrows from there to the results and between them. */
document.addEventListener('keydown', (event) => {
  const { key, target } = event
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return
  const isTyping = target.matches('input, textarea, select') && target !== search
  if (isTyping) return
  if (key === '/' && target !== search && search) {
    event.preventDefault()
    search.focus()
    search.select()
  }
  if (key === 'Escape' && target === search) search.blur()
  if (key !== 'ArrowDown' && key !== 'ArrowUp') return
  const results = [...document.querySelectorAll('.results h2 a')]
  const index = results.indexOf(target)
  if (index === -1 && target !== search) return
  const next = key === 'ArrowDown' ? results[index + 1] : index > 0 ? results[index - 1] : search
  if (!next) return
  event.preventDefault()
  next.focus()
})

/** Returns an element with text, never with markup. */
function element(name, text = '', attributes = {}) {
  const created = document.createElement(name)
  created.textContent = text
  for (const [attribute, value] of Object.entries(attributes)) created.setAttribute(attribute, value)
  return created
}

function uploadList() {
  const existing = document.querySelector('.uploads')
  if (existing) return existing
  const list = element('ul', '', { class: 'uploads', 'aria-label': 'Uploads', 'aria-live': 'polite' })
  const place = document.querySelector('.drop') ?? document.querySelector('main').firstElementChild
  place.before(list)
  return list
}

const waiting = []
let running = 0

function enqueue(files) {
  const form = document.querySelector('.drop')
  const maxBytes = Number(form?.dataset.maxBytes ?? Number.POSITIVE_INFINITY)
  for (const file of files) {
    const item = element('li')
    item.append(element('span', file.name))
    uploadList().append(item)
    if (file.size > maxBytes) finish(item, 'bad', 'Larger than this server accepts')
    else {
      show(item, element('span', 'Waiting'))
      waiting.push({ file, item })
    }
  }
  startWaiting()
}

function startWaiting() {
  while (running < parallelUploads && waiting.length > 0) {
    const next = waiting.shift()
    running++
    send(next).finally(() => {
      running--
      startWaiting()
    })
  }
}

/** Replaces everything behind the name of a file. */
function show(item, ...parts) {
  while (item.children.length > 1) item.lastElementChild.remove()
  item.append(...parts)
}

function finish(item, kind, text) {
  item.className = kind
  show(item, element('span', text))
}

/** Sends a file. Waits and repeats if the server asks for it; offers another attempt after a failure. */
async function send({ file, item }) {
  const { status, answer, wait } = await post(file, item)
  if ((status === 429 || status === 503) && wait > 0) {
    finish(item, '', `Waiting ${wait} s, the server is busy`)
    await new Promise((resolve) => setTimeout(resolve, wait * 1000))
    return send({ file, item })
  }
  const [result] = answer?.documents ?? []
  if (status === 401) return finish(item, 'bad', 'You are signed out. Open the page again.')
  if (result?.status === 'uploaded') {
    item.firstElementChild.replaceWith(element('a', file.name, { href: `/documents/${encodeURIComponent(result.id)}` }))
    return finish(item, 'good', result.created ? 'Uploaded' : 'Was there already')
  }
  finish(item, 'bad', result?.error?.message ?? answer?.error?.message ?? 'The connection broke')
  const again = element('button', 'Try again', { type: 'button', class: 'plain' })
  again.addEventListener('click', () => {
    item.className = ''
    waiting.push({ file, item })
    startWaiting()
  })
  item.append(again)
}

function post(file, item) {
  return new Promise((resolve) => {
    const request = new XMLHttpRequest()
    const progress = element('progress', '', { max: '100', value: '0', 'aria-label': `Upload of ${file.name}` })
    show(item, progress)
    request.upload.onprogress = ({ loaded, total }) => {
      progress.value = (100 * loaded) / total
    }
    request.onloadend = () =>
      resolve({ status: request.status, answer: request.response, wait: Number(request.getResponseHeader('retry-after')) })
    request.open('POST', '/upload')
    request.setRequestHeader('accept', 'application/json')
    request.responseType = 'json'
    const form = new FormData()
    form.append('files', file)
    request.send(form)
  })
}

/** Files can be dropped on every page of a signed-in user. */
if (search) {
  const hasFiles = (event) => event.dataTransfer?.types.includes('Files')
  document.addEventListener('dragover', (event) => {
    if (!hasFiles(event)) return
    event.preventDefault()
    document.body.classList.add('dropping')
  })
  document.addEventListener('dragleave', ({ relatedTarget }) => {
    if (!relatedTarget) document.body.classList.remove('dropping')
  })
  document.addEventListener('drop', (event) => {
    if (!hasFiles(event)) return
    event.preventDefault()
    document.body.classList.remove('dropping')
    enqueue(event.dataTransfer.files)
  })
  addEventListener('beforeunload', (event) => {
    if (running + waiting.length > 0) event.preventDefault()
  })
}

const dropForm = document.querySelector('form.drop')
dropForm?.addEventListener('submit', (event) => {
  event.preventDefault()
  const input = dropForm.querySelector('input[type=file]')
  enqueue(input.files)
  input.value = ''
})

/** Refreshes the queue while jobs are active and the page is visible. */
async function refreshQueue() {
  const queue = document.querySelector('#queue')
  if (!queue) return
  try {
    if (document.hidden || Number(queue.dataset.active) === 0 || queue.contains(document.activeElement)) return
    const response = await fetch('/queue', { headers: { accept: 'text/html' } })
    if (response.redirected) return location.assign(response.url)
    const fresh = response.ok && new DOMParser().parseFromString(await response.text(), 'text/html').querySelector('#queue')
    if (fresh) queue.replaceWith(fresh)
  } catch {
    // The connection broke. The next refresh tries again.
  } finally {
    setTimeout(refreshQueue, refreshMs)
  }
}
setTimeout(refreshQueue, refreshMs)
