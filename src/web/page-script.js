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
    else addWaiting({ file, item })
  }
  startWaiting()
}

function addWaiting(upload) {
  upload.item.className = ''
  show(upload.item, element('span', 'Waiting'))
  waiting.push(upload)
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

/** Returns whether a file can be read. A folder cannot: its request fails as if the connection had broken. */
async function canRead(file) {
  const reader = file.stream().getReader()
  try {
    await reader.read()
    await reader.cancel()
    return true
  } catch {
    return false
  }
}

/** Sends a file. Waits and repeats if the server asks for it; offers another attempt after a failure. */
async function send({ file, item }) {
  const isReadable = await canRead(file)
  const { status, answer, wait } = isReadable ? await post(file, item) : { status: 0 }
  if ((status === 429 || status === 503) && wait > 0) {
    finish(item, '', `Waiting ${wait} s, the server is busy`)
    await new Promise((resolve) => setTimeout(resolve, wait * 1000))
    return send({ file, item })
  }
  const [result] = answer?.documents ?? []
  if (result?.status === 'uploaded') {
    item.firstElementChild.replaceWith(element('a', file.name, { href: `/documents/${encodeURIComponent(result.id)}` }))
    return finish(item, 'good', result.created ? 'Uploaded' : 'Was there already')
  }
  finish(item, 'bad', isReadable ? (result?.error?.message ?? reasonOf(status, answer)) : 'This is a folder, or cannot be read')
  const again = element('button', 'Try again', { type: 'button', class: 'plain' })
  again.addEventListener('click', () => {
    addWaiting({ file, item })
    startWaiting()
  })
  item.append(again)
}

/** Returns the reason of a failure. A proxy before this server answers without a message. */
function reasonOf(status, answer) {
  if (status === 401) return 'You are signed out. Sign in in another tab.'
  if (answer?.error) return answer.error.message
  if (status === 413) return 'Larger than the proxy of this server accepts'
  return status === 0 ? 'The connection broke' : `The server answered with ${status}`
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
