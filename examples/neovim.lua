-- :Treadle What does this project do?   asks, and shows the answer as it comes, in a buffer of its own.
-- :TreadleStop                          stops it.
-- Put this file into Neovim's `plugin/` folder; Neovim 0.7 or newer, with nothing but its own client.

local agent, instance = "assistant", vim.fn.getcwd()
local id
-- Where the answer goes, whichever buffer is looked at meanwhile.
local buffer
-- Before 0.11 a client could not be started without a file, and its functions were no methods.
local is_newer = vim.fn.has("nvim-0.11") == 1

local function append(into, text)
  if not vim.api.nvim_buf_is_loaded(into) then return end
  local last = vim.api.nvim_buf_line_count(into)
  local line = vim.api.nvim_buf_get_lines(into, last - 1, last, false)[1]
  vim.api.nvim_buf_set_lines(into, last - 1, last, false, vim.split(line .. text, "\n"))
end

local function show(params)
  if buffer and params.agent == agent and params.instance == instance and params.kind == "text" then
    append(buffer, params.text)
  end
end

local function start()
  local config = {
    name = "treadle",
    cmd = { "treadle", "serve" },
    root_dir = vim.fn.getcwd(),
    handlers = { ["session/delta"] = function(_, params) show(params) end },
    on_exit = function() id = nil end,
  }
  if is_newer then return vim.lsp.start(config, { attach = false }) end
  return vim.lsp.start_client(config)
end

local function request(method, params, done)
  id = id or start()
  local client = vim.lsp.get_client_by_id(id)
  if is_newer then client:request(method, params, done) else client.request(method, params, done) end
end

vim.api.nvim_create_user_command("Treadle", function(command)
  vim.cmd("new")
  vim.bo.buftype, vim.bo.filetype = "nofile", "markdown"
  local before, new = buffer, vim.api.nvim_get_current_buf()
  buffer = new
  request("session/prompt", { agent = agent, instance = instance, prompt = command.args }, function(err)
    if not err then return end
    append(new, "\n" .. err.message)
    -- Refused while an earlier answer still comes: the rest of that belongs where it began.
    if buffer == new then buffer = before end
  end)
end, { nargs = "+" })

vim.api.nvim_create_user_command("TreadleStop", function()
  request("session/cancel", { agent = agent, instance = instance }, function() end)
end, {})
